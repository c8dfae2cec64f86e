//! Keys in words.

use bytes::Buf;
use seriatim_sequencer::NumbersKey;
use seriatim_storage::Key;

use crate::definition::{Schema, TypeId};
use crate::keys::{self, LOW_BITS};
use crate::view;

/// What a key leads to.
pub(crate) fn describe(schema: &Schema, key: Key<'_>) -> String {
    if let Some((_, workspace)) = NumbersKey::decode(key) {
        return format!("numbers of workspace {workspace}");
    }
    read(schema, key).unwrap_or_else(|| "a key that no engine writes".to_owned())
}

fn read(schema: &Schema, key: Key<'_>) -> Option<String> {
    if let Some((value, number)) = keys::value_of_part(key) {
        return read(schema, value).map(|text| format!("part {number} of {text}"));
    }
    let (family, mut rest) = key.partition.split_at_checked(2)?;
    rest.try_get_u32().ok()?;
    let workspace = rest.try_get_u64().ok()?;
    let text = match family {
        b"el" => format!("place of event {} in the log", number(rest, key.clustering)?),
        b"ei" => format!("entry of id {}", number(rest, key.clustering)?),
        b"er" => {
            let document = document(schema, rest.try_get_u16().ok()?);
            format!("record {} of type {document}", number(rest, key.clustering)?)
        }
        b"ep" => {
            let document = document(schema, rest.try_get_u16().ok()?);
            let first = number(rest, key.clustering)? << LOW_BITS;
            format!("mark that type {document} has records from {first} on")
        }
        b"ex" => format!("idempotency key \"{}\"", key.clustering.escape_ascii()),
        b"ev" => {
            let parts = view::decode_key(key.clustering).ok()?;
            let parts: Vec<String> = parts.iter().map(|part| part.to_json().to_string()).collect();
            format!("row [{}] of view {}", parts.join(", "), rest.escape_ascii())
        }
        _ => return None,
    };
    Some(format!("{text}, workspace {workspace}"))
}

/// A number that is split over both parts of a key.
fn number(mut high: &[u8], mut low: &[u8]) -> Option<u64> {
    let high = high.try_get_u64().ok()?;
    Some(high << LOW_BITS | u64::from(low.try_get_u16().ok()?))
}

fn document(schema: &Schema, id: u16) -> String {
    let known = schema.document(TypeId::new(id));
    known.map_or_else(|| id.to_string(), |document| document.name.to_string())
}

#[cfg(test)]
mod tests {
    use seriatim_types::{ApplicationId, RecordId, WorkspaceId, WorkspaceOffset};

    use super::*;
    use crate::definition::{Accepted, shop};
    use crate::keys::{StoreKey, WorkspaceKeys};

    #[test]
    fn each_family_has_its_words() {
        let application = ApplicationId::new(16);
        let schema = Schema::new(&Accepted::accept(None, application, &shop()).unwrap()).unwrap();
        let keys_of = WorkspaceKeys::new(application, WorkspaceId::new(7));
        let invoice = schema.document_by_name("Invoice").unwrap().id;
        let numbers = NumbersKey::new(application, WorkspaceId::new(7));
        let row = StoreKey::new(&keys_of.view("totals"), &view::encode_key(&["a".into(), 3.into()]));
        let table = [
            (
                keys_of.event(WorkspaceOffset::new(5_000).unwrap()),
                "place of event 5000 in the log, workspace 7",
            ),
            (keys_of.id(RecordId::new(70_000)), "entry of id 70000, workspace 7"),
            (keys_of.record(invoice, RecordId::new(70_000)), "record 70000 of type Invoice, workspace 7"),
            (
                keys_of.part(invoice, RecordId::new(70_000)),
                "mark that type Invoice has records from 69632 on, workspace 7",
            ),
            (keys_of.idempotency("a\n"), "idempotency key \"a\\n\", workspace 7"),
            (row, "row [\"a\", 3] of view totals, workspace 7"),
            (
                keys::part_of_value(keys_of.record(invoice, RecordId::new(70_000)).as_key(), 1, 2),
                "part 2 of record 70000 of type Invoice, workspace 7",
            ),
            (StoreKey::new(b"zz", b""), "a key that no engine writes"),
        ];
        for (key, words) in table {
            assert_eq!(describe(&schema, key.as_key()), words);
        }
        assert_eq!(describe(&schema, numbers.as_key()), "numbers of workspace 7");
    }
}
