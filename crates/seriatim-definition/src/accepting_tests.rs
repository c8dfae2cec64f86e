//! Which changes are accepted, which are refused and why. Numbers never change.

use proptest::prelude::*;
use seriatim_types::ErrorKind;

use super::*;
use crate::{FieldType, Schema, shop};

const ID: ApplicationId = ApplicationId::new(9);

fn read(body: &str) -> Application {
    Application::from_toml(&format!("name = \"a\"\npartitions = 4\n{body}\n[workspaces.w]")).unwrap()
}

fn after(first: &Application, second: &Application) -> Result<Accepted, DefinitionError> {
    let first = Accepted::accept(None, ID, first).unwrap();
    Accepted::accept(Some(&first), ID, second)
}

/// The message with which the second is refused after the first.
fn refused(first: &str, second: &str) -> String {
    let error = after(&read(first), &read(second)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    error.to_string()
}

#[test]
fn the_same_definition_again_is_the_same() {
    let first = Accepted::accept(None, ID, &shop()).unwrap();
    assert!(first.is_same(&shop()));
    assert_eq!(Accepted::accept(Some(&first), ID, &shop()).unwrap(), first);
    let json = serde_json::to_string(&first).unwrap();
    assert_eq!(serde_json::from_str::<Accepted>(&json).unwrap(), first);
}

#[test]
fn retiring_changes_nothing_that_is_derived_and_everything_else_does() {
    let first = read("[sequences.S]\nlast = 9\n[documents.D]\nkind = \"C\"");
    let accepted = Accepted::accept(None, ID, &first).unwrap();
    assert!(accepted.derives_the_same(&accepted));
    let retired = after(&first, &read("[sequences.S]\nlast = 9")).unwrap();
    assert_ne!(retired, accepted);
    assert!(accepted.derives_the_same(&retired));
    for changed in [
        "[sequences.S]\nlast = 10\n[documents.D]\nkind = \"C\"",
        "[sequences.S]\nlast = 9\n[sequences.T]\nlast = 9\n[documents.D]\nkind = \"C\"",
        "[sequences.S]\nlast = 9\n[documents.D]\nkind = \"C\"\n[documents.E]\nkind = \"C\"",
    ] {
        assert!(!accepted.derives_the_same(&after(&first, &read(changed)).unwrap()), "{changed}");
    }
}

#[test]
fn what_contradicts_stored_data_is_refused_with_the_reason() {
    let table = [
        (
            "[sequences.S]\nfirst = 1",
            "[sequences.S]\nfirst = 2",
            "sequence S: it begins at 1 and cannot begin at 2, because workspaces may have drawn from it: raise the sequence instead",
        ),
        (
            "[sequences.S]\nlast = 9",
            "[sequences.S]\nlast = 8",
            "sequence S: its ranges were 1 to 9 and cannot become 1 to 8: add numbers after the last one only",
        ),
        (
            "[sequences.S]\nranges = [[1, 2], [5, 9]]",
            "[sequences.S]\nranges = [[1, 3], [5, 9]]",
            "sequence S: its ranges were 1 to 2, 5 to 9 and cannot become 1 to 3, 5 to 9: add numbers after the last \
             one only",
        ),
        (
            "[documents.D]\nkind = \"C\"",
            "[documents.D]\nkind = \"W\"",
            "document D: its kind is C and cannot become W: give the new document another name",
        ),
        (
            "[documents.D]\nkind = \"C\"\nsingleton = true",
            "[documents.D]\nkind = \"C\"",
            "document D: it is a singleton and cannot become an ordinary document: give the new document another name",
        ),
        (
            "[documents.D]\nkind = \"C\"",
            "[documents.D]\nkind = \"C\"\nsingleton = true",
            "document D: it is an ordinary document and cannot become a singleton: give the new document another name",
        ),
        (
            "[documents.D]\nkind = \"C\"\n[documents.E]\nkind = \"C\"",
            "[documents.D]\nkind = \"C\"\n[documents.E]\nparent = \"D\"",
            "document E: it is a root document and cannot become a child record of D: give the new one another name",
        ),
        (
            "[documents.D]\nkind = \"C\"\n[documents.E]\nparent = \"D\"",
            "[documents.D]\nkind = \"C\"\n[documents.E]\nkind = \"C\"",
            "document E: it is a child record of D and cannot become a root document: give the new document another name",
        ),
        (
            "[documents.D]\nkind = \"C\"\n[documents.F]\nkind = \"C\"\n[documents.E]\nparent = \"D\"",
            "[documents.D]\nkind = \"C\"\n[documents.F]\nkind = \"C\"\n[documents.E]\nparent = \"F\"",
            "document E: it is a child record of D and cannot become one of F: give the new one another name",
        ),
    ];
    for (first, second, message) in table {
        assert_eq!(refused(first, second), message);
    }
}

#[test]
fn what_stored_fields_contradict_is_refused_with_the_reason() {
    let document =
        |field: &str| format!("[sequences.S]\n[sequences.T]\n[documents.D]\nkind = \"W\"\n{field}");
    let table = [
        (
            "fields.f = \"text\"",
            "fields.f = \"integer\"",
            "its type is text and cannot become integer: give the new field another name",
        ),
        (
            "fields.f = \"reference\"",
            "fields.f = { to = \"D\" }",
            "its type is reference and cannot become reference to D: give the new field another name",
        ),
        (
            "fields.f = { draw = \"S\" }",
            "fields.f = { draw = \"T\" }",
            "it is drawn from S and cannot be drawn from T: give the new field another name",
        ),
        (
            "fields.f = { draw = \"S\" }",
            "fields.f = \"integer\"",
            "it is drawn from S and cannot be set by requests: give the new field another name",
        ),
        (
            "fields.f = \"integer\"",
            "fields.f = { draw = \"S\" }",
            "it is set by requests and cannot be drawn from S: give the new field another name",
        ),
        (
            "fields.f = \"text\"",
            "fields.f = { type = \"text\", required = true }",
            "it was not required, and stored records may not have it: remove required",
        ),
        (
            "",
            "fields.f = { type = \"text\", required = true }",
            "it is new and required, but stored records do not have it: remove required",
        ),
    ];
    for (first, second, message) in table {
        let message = format!("field f of document D: {message}");
        assert_eq!(refused(&document(first), &document(second)), message);
    }
}

#[test]
fn what_is_fixed_for_an_application_is_refused_with_the_reason() {
    let first = shop();
    let mut partitions = shop();
    partitions.partitions = seriatim_types::PartitionCount::ONE;
    let mut records = shop();
    records.records = crate::RecordScheme::Single;
    let mut name = shop();
    name.name = "mall".to_owned();
    let table = [
        (partitions, "it has 4 partitions and cannot have 1: workspaces cannot move between partitions"),
        (records, "its record scheme is split and cannot become single: an id could be drawn twice"),
        (name, "its name is shop and cannot become mall: define another application"),
    ];
    for (second, message) in table {
        assert_eq!(after(&first, &second).unwrap_err().to_string(), format!("application: {message}"));
    }
    let accepted = Accepted::accept(None, ID, &first).unwrap();
    let error = Accepted::accept(Some(&accepted), ApplicationId::new(8), &first).unwrap_err();
    assert_eq!(error.to_string(), "application: its number is 9 and cannot become 8");
}

#[test]
fn what_only_adds_is_accepted() {
    let table = [
        ("[sequences.S]\nlast = 9", "[sequences.S]\nlast = 10"),
        ("[sequences.S]\nlast = 9", "[sequences.S]\nranges = [[1, 9], [20, 30]]"),
        ("", "[sequences.S]\n[documents.D]\nkind = \"C\"\nfields.f = { draw = \"S\" }\n[commands.Do]"),
        ("[documents.D]\nkind = \"C\"", "[documents.D]\nkind = \"C\"\nfields.f = \"text\""),
        (
            "[documents.D]\nkind = \"C\"\nfields.f = { type = \"text\", required = true }",
            "[documents.D]\nkind = \"C\"\nfields.f = \"text\"",
        ),
        ("[commands.Do]", "[commands.Do]\nargument = \"json\"\nunlogged = true"),
        ("[commands.Do]", ""),
        ("[documents.D]\nkind = \"O\"\n[documents.E]\nparent = \"D\"", ""),
    ];
    for (first, second) in table {
        let accepted = after(&read(first), &read(second)).unwrap();
        Schema::new(&accepted).unwrap();
        assert!(!accepted.is_same(&read(first)), "{second}");
    }
}

#[test]
fn a_name_that_is_defined_again_has_its_number_and_must_have_its_shape() {
    let with = |more: &str| read(&format!("[documents.A]\nkind = \"W\"\n{more}"));
    let settings =
        "[documents.S]\nkind = \"C\"\nsingleton = true\nfields.x = { type = \"text\", required = true }";
    let first = Accepted::accept(None, ID, &with(settings)).unwrap();
    let second = Accepted::accept(Some(&first), ID, &with("")).unwrap();
    let gone = Schema::new(&second).unwrap();
    assert!(gone.document_by_name("S").is_none());
    let found = gone.document(TypeId::new(2)).unwrap();
    assert!(found.retired && !gone.kinds()[0].has(found.id));

    let other = "[documents.T]\nkind = \"C\"\nsingleton = true";
    let third = Accepted::accept(Some(&second), ID, &with(other)).unwrap();
    assert_eq!(third.documents[2].id, TypeId::new(3));
    assert_eq!((third.documents[1].singleton, third.documents[2].singleton), (Some(65_536), Some(65_537)));

    let back = Accepted::accept(Some(&third), ID, &with(settings)).unwrap();
    assert_eq!(back.documents[1], first.documents[1]);
    let error = Accepted::accept(Some(&third), ID, &with("[documents.S]\nkind = \"C\"")).unwrap_err();
    assert!(error.to_string().starts_with("document S: it is a singleton and cannot become"), "{error}");
}

#[test]
fn a_field_that_is_defined_again_cannot_be_required() {
    let with = |field: &str| read(&format!("[documents.D]\nkind = \"W\"\nfields.g = \"text\"\n{field}"));
    let required = "fields.f = { type = \"text\", required = true }";
    let first = Accepted::accept(None, ID, &with(required)).unwrap();
    let second = Accepted::accept(Some(&first), ID, &with("")).unwrap();
    let error = Accepted::accept(Some(&second), ID, &with(required)).unwrap_err();
    assert!(error.to_string().ends_with("stored records may not have it: remove required"), "{error}");
    let third = Accepted::accept(Some(&second), ID, &with("fields.f = \"text\"")).unwrap();
    let schema = Schema::new(&third).unwrap();
    assert_eq!(schema.documents()[0].field("f").unwrap().id, FieldId::new(2));
}

#[test]
fn a_kind_keeps_the_sequences_that_it_ever_had() {
    let drawn = "[sequences.S]\nspace = \"n\"\n[documents.D]\nkind = \"W\"\nfields.f = { draw = \"S\" }";
    let first = Accepted::accept(None, ID, &read(drawn)).unwrap();
    let second = Accepted::accept(Some(&first), ID, &read("")).unwrap();
    let schema = Schema::new(&second).unwrap();
    let kind = &schema.kinds()[0];
    assert_eq!(kind.sequences().len(), 2);
    assert_eq!(schema.sequences().kind(kind.id).unwrap().sequences().len(), 3);

    // Another sequence of the same space could give the same numbers again.
    let other = "[sequences.T]\nspace = \"n\"\n[commands.Do]\nsequences = [\"T\"]";
    let error = Accepted::accept(Some(&second), ID, &read(other)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "sequence T: it shares a space with sequence S, and both could give 1: choose ranges that do not overlap"
    );
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[test]
fn ids_of_retired_singletons_are_not_used_again() {
    let many = |prefix: &str| {
        let singletons =
            (0..300).map(|number| format!("[documents.{prefix}{number}]\nkind = \"C\"\nsingleton = true"));
        read(&singletons.collect::<Vec<_>>().join("\n"))
    };
    let first = Accepted::accept(None, ID, &many("a")).unwrap();
    let error = Accepted::accept(Some(&first), ID, &many("b")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert_eq!(
        error.to_string(),
        "document b212: an application has at most 512 singletons, retired ones included: use a document that is \
         not a singleton"
    );
}

#[test]
fn what_the_registry_cannot_store_is_too_large() {
    let mut application = read("");
    let name = |number: usize| format!("{number:0100}");
    for number in 0..1_000 {
        application.documents.push(DocumentDefinition::new(name(number), crate::DocumentKind::C));
    }
    let names: Vec<String> = (0..1_000).map(name).collect();
    for number in 0..60 {
        let all = names.iter().map(String::as_str);
        application.kinds.push(KindDefinition::new(format!("k{number}")).documents(all));
    }
    let error = Accepted::accept(None, ID, &application).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().ends_with("are too many: at most 6291456"), "{error}");
}

/// Some of eight documents with some of four fields each, which always have the shape that belongs to their name.
fn any_application() -> impl Strategy<Value = Application> {
    let fields = proptest::sample::subsequence(vec![0_u8, 1, 2, 3], 0..=4).prop_shuffle();
    let documents = proptest::sample::subsequence((0_u8..8).collect::<Vec<_>>(), 0..=8).prop_shuffle();
    (documents, proptest::collection::vec(fields, 8)).prop_map(|(documents, fields)| {
        let mut builder = Application::builder("a").partitions(2).kind(KindDefinition::new("w"));
        for sequence in 0..4 {
            builder = builder.sequence(SequenceDefinition::new(format!("s{sequence}"), sequence));
        }
        for document in documents {
            let kind = crate::DocumentKind::W;
            let mut definition = match document {
                0..3 => DocumentDefinition::singleton(format!("d{document}"), kind),
                _ => DocumentDefinition::new(format!("d{document}"), kind),
            };
            for field in &fields[usize::from(document)] {
                definition = definition.with(match field {
                    0 => FieldDefinition::new("f0", FieldType::Text),
                    _ => FieldDefinition::drawn(format!("f{field}"), format!("s{field}")),
                });
            }
            builder = builder.document(definition);
        }
        builder.build().unwrap()
    })
}

/// Every number that a name has.
fn numbers(accepted: &Accepted) -> BTreeMap<String, u64> {
    let mut numbers = BTreeMap::new();
    for document in &accepted.documents {
        let name = &document.name;
        numbers.insert(name.clone(), u64::from(document.id.get()));
        numbers.extend(document.singleton.map(|id| (format!("{name}!"), id)));
        let fields = document.fields.iter();
        numbers
            .extend(fields.map(|field| (format!("{name}.{}", field.shape.name), u64::from(field.id.get()))));
    }
    numbers
}

proptest! {
    #[test]
    fn accepting_is_stable_and_numbers_do_not_change(applications in proptest::collection::vec(any_application(), 1..6)) {
        let mut accepted: Option<Accepted> = None;
        for application in &applications {
            let next = Accepted::accept(accepted.as_ref(), ID, application).unwrap();
            prop_assert!(next.is_same(application));
            prop_assert_eq!(&Accepted::accept(Some(&next), ID, application).unwrap(), &next);
            let all = numbers(&next);
            for (name, number) in accepted.iter().flat_map(numbers) {
                prop_assert_eq!(all.get(&name), Some(&number), "{}", name);
            }
            let schema = Schema::new(&next).unwrap();
            for document in &application.documents {
                let found = schema.document_by_name(&document.name).unwrap();
                prop_assert_eq!(schema.document(found.id), Some(found));
                for field in &document.fields {
                    let field = found.field(&field.name).unwrap();
                    prop_assert_eq!(found.field_by_id(field.id), Some(field));
                }
            }
            let json = serde_json::to_vec(&next).unwrap();
            prop_assert_eq!(&serde_json::from_slice::<Accepted>(&json).unwrap(), &next);
            accepted = Some(next);
        }
    }
}
