//! A shop in a directory: run it twice, and the numbers continue.
//!
//! `cargo run -p seriatim-engine --example invoice -- ./shop-data`

use std::error::Error;

use seriatim_engine::definition::shop;
use seriatim_engine::{App, Change, Engine, Options, Request};
use seriatim_env::Env;
use seriatim_storage_file::{FileOptions, FileStorage};

#[tokio::main]
#[allow(clippy::print_stdout, reason = "a program")]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "shop-data".to_owned());
    let env = Env::real();
    let storage = FileStorage::open(&env, directory.as_ref(), FileOptions::default()).await?;
    let (log, store) = (storage.log().clone(), storage.store().clone());
    let engine = Engine::open(env, log, store, [App::new(shop())], Options::default()).await?;

    let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await?;
    let request = Request::changes([
        Change::create("Invoice", 1).field("total", "99.50"),
        Change::create("InvoiceLine", 2).parent(1).field("text", "tea").field("amount", "99.50"),
    ]);
    let answer = engine.submit("shop", corner.id, &request).await?;
    println!("invoice number {:?}, record {:?}", answer.number(1, "number"), answer.id(1));

    engine.close().await;
    storage.close().await?;
    Ok(())
}
