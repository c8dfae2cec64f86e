//! Operations that need the scope `admin`.

use seriatim_api::{
    BackupReport, BackupRequest, CreateToken, CreatedToken, DoctorReport, DoctorRequest, Token, Tokens,
    Treatment, UnfenceReport, UnfenceRequest,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::ClientError;
use crate::url::escape;

/// Backup, doctor, unfence and tokens. The client does not repeat any of these calls if it may have been done.
#[derive(Debug, Clone)]
pub struct Admin {
    client: Client,
}

impl Admin {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Makes a backup in a folder on the server's machine.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn backup(&self, destination: &str) -> Result<BackupReport, ClientError> {
        let request = BackupRequest { destination: destination.to_owned() };
        Call::post("/v1/backup").body(&request).without_timeout().send(&self.client).await
    }

    /// Compares all derived data with the logs, and treats what differs.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn doctor(&self, treatment: Treatment) -> Result<DoctorReport, ClientError> {
        let request = DoctorRequest { treatment };
        Call::post("/v1/doctor").body(&request).without_timeout().send(&self.client).await
    }

    /// Allows a restored copy to give out numbers again.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn unfence(&self, request: &UnfenceRequest) -> Result<UnfenceReport, ClientError> {
        Call::post("/v1/unfence").body(request).without_timeout().send(&self.client).await
    }

    /// Makes a token. Its secret is only in this answer.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn create_token(&self, request: &CreateToken) -> Result<CreatedToken, ClientError> {
        Call::post("/v1/tokens").body(request).send(&self.client).await
    }

    /// All tokens, without their secrets.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn tokens(&self) -> Result<Vec<Token>, ClientError> {
        let mut all: Vec<Token> = Vec::new();
        loop {
            let after = all.last().map(|token| token.id.clone());
            let page: Tokens = Call::get("/v1/tokens").query("after", after).send(&self.client).await?;
            if page.tokens.is_empty() {
                return Ok(all);
            }
            all.extend(page.tokens);
        }
    }

    /// Revokes a token. It is invalid from the moment at which this returns.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn revoke_token(&self, id: &str) -> Result<(), ClientError> {
        let answer =
            Call::delete(format!("/v1/tokens/{}", escape(id))).send::<serde_json::Value>(&self.client);
        answer.await.map(drop)
    }
}
