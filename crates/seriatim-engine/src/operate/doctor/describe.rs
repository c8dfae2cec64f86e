//! Descriptions of keys.

use crate::command::view;
use crate::definition::{Schema, TypeId};
use crate::derive::keys::Family;

/// Describes what is stored at a key, by its clustering part.
pub(crate) fn describe(schema: &Schema, clustering: &[u8]) -> String {
    read(schema, clustering).unwrap_or_else(|| "a key that no engine writes".to_owned())
}

fn read(schema: &Schema, clustering: &[u8]) -> Option<String> {
    let (text, workspace) = match Family::of(clustering)? {
        Family::Checkpoint => return Some("the checkpoint".to_owned()),
        Family::Sweep => return Some("how far idempotency keys are swept".to_owned()),
        Family::Numbers(workspace) => return Some(format!("numbers of workspace {workspace}")),
        Family::Part { value, number } => {
            return read(schema, value).map(|text| format!("part {number} of {text}"));
        }
        Family::Event(workspace, offset) => (format!("place of event {offset} in the log"), workspace),
        Family::Id(workspace, id) => (format!("entry of id {id}"), workspace),
        Family::Record(workspace, document, id) => {
            (format!("record {id} of type {}", name(schema, document)), workspace)
        }
        Family::Idempotency(workspace, key) => {
            (format!("idempotency key \"{}\"", key.escape_ascii()), workspace)
        }
        Family::Row { workspace, view, key } => {
            let parts = view::decode_key(key).ok()?;
            let parts: Vec<String> = parts.iter().map(|part| part.to_json().to_string()).collect();
            (format!("row [{}] of view {}", parts.join(", "), view.escape_ascii()), workspace)
        }
    };
    Some(format!("{text}, workspace {workspace}"))
}

fn name(schema: &Schema, document: TypeId) -> String {
    let known = schema.document(document);
    known.map_or_else(|| document.to_string(), |document| document.name.to_string())
}

#[cfg(test)]
mod tests {
    use seriatim_sequencer::NumbersKey;
    use seriatim_types::{ApplicationId, Partition, RecordId, WorkspaceId, WorkspaceOffset};

    use super::*;
    use crate::command::view::ViewKeys;
    use crate::definition::{Accepted, shop};
    use crate::derive::keys::{self, StoreKey, WorkspaceKeys};

    #[test]
    fn each_family_has_a_description() {
        let application = ApplicationId::new(16);
        let schema = Schema::new(&Accepted::accept(None, application, &shop()).unwrap()).unwrap();
        let (partition, workspace) = (Partition::new(16, 3), WorkspaceId::new(7));
        let keys_of = WorkspaceKeys::new(partition, workspace);
        let record = |document: &str| {
            let document = schema.document_by_name(document).unwrap();
            keys_of.record(document.kind, document.id, RecordId::new(70_000))
        };
        let numbers = NumbersKey::new(partition, workspace);
        let row = ViewKeys::new(keys_of, "totals").row(&["a".into(), 3.into()]);
        let table = [
            (
                keys_of.event(WorkspaceOffset::new(5_000).unwrap()),
                "place of event 5000 in the log, workspace 7",
            ),
            (keys_of.id(RecordId::new(70_000)), "entry of id 70000, workspace 7"),
            (record("Invoice"), "record 70000 of type Invoice, workspace 7"),
            (record("Customer"), "record 70000 of type Customer, workspace 7"),
            (keys_of.idempotency("a\n"), "idempotency key \"a\\n\", workspace 7"),
            (row, "row [\"a\", 3] of view totals, workspace 7"),
            (
                keys::part_of_value(record("Invoice").as_key(), 1, 2),
                "part 2 of record 70000 of type Invoice, workspace 7",
            ),
            (keys::checkpoint(partition), "the checkpoint"),
            (keys::sweep(partition), "how far idempotency keys are swept"),
            (StoreKey::new(b"zz", b""), "a key that no engine writes"),
        ];
        for (key, words) in table {
            assert_eq!(describe(&schema, key.clustering()), words);
        }
        assert_eq!(describe(&schema, numbers.as_key().clustering), "numbers of workspace 7");
    }
}
