//! Texts that are refused, each with its exact message; and texts with the same meaning.

use super::*;
use crate::{FieldDefinition, FieldType, Place, SequenceDefinition};

/// The required keys of an application, on two lines.
const HEAD: &str = "name = \"a\"\npartitions = 4\n";

fn refused(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

/// Each text is refused after [`HEAD`]: lines count from 3.
fn check(table: &[(&str, &str)]) {
    for (rest, message) in table {
        assert_eq!(refused(&format!("{HEAD}{rest}")), *message, "{rest}");
    }
}

/// The text is accepted after [`HEAD`], with a kind of workspace after it.
fn accepted(rest: &str) -> Application {
    read(&format!("{HEAD}{rest}\n[workspaces.w]\n")).unwrap()
}

#[test]
fn a_text_that_is_not_toml_is_refused_by_its_place() {
    let table = [
        ("name = ", "line 1, column 8: not valid TOML: "),
        ("name = \"ä\" x", "line 1, column 12: not valid TOML: "),
        ("a = 1\n\na = 2", "line 3, column 1: not valid TOML: duplicate key"),
    ];
    for (text, message) in table {
        let found = refused(text);
        assert!(found.starts_with(message), "{text}: {found}");
    }
}

#[test]
fn the_message_names_what_an_application_lacks_or_misspells() {
    let table = [
        (
            "",
            "line 1, column 1: application: name is missing: give the application a name, as in name = \"shop\"",
        ),
        (
            "name = \"a\"",
            "line 1, column 1: application: partitions is missing: set the number of partitions that workspaces are \
             distributed over, as in partitions = 4; it can never be changed",
        ),
        (
            "name = \"a\"\npartitions = 0",
            "line 2, column 14: application: partitions must be 1 to 65535; the number can never be changed",
        ),
        (
            "name = \"a\"\npartitions = 65_536",
            "line 2, column 14: application: partitions must be 1 to 65535; the number can never be changed",
        ),
        (
            "name = \"a\"\npartitions = -1",
            "line 2, column 14: application: partitions is -1: use a whole number from 0 to 18446744073709551615",
        ),
        (
            "name = \"a\"\npartitions = \"4\"",
            "line 2, column 14: application: partitions must be a whole number, as in partitions = 1, not a text",
        ),
        (
            "name = 1",
            "line 1, column 8: application: name must be a text, as in name = \"…\", not an integer",
        ),
        (
            "name = \"a b\"\npartitions = 1",
            "line 1, column 8: application: a name has 1 to 100 of the characters A-Z a-z 0-9 . _ -",
        ),
        (
            "name = \"a\"\npartition = 4",
            "line 2, column 1: application: unknown key partition: use name, partitions, records, sequences, \
             documents, commands, workspaces",
        ),
    ];
    for (text, message) in table {
        assert_eq!(refused(text), message, "{text}");
    }
    check(&[
        (
            "",
            "line 1, column 1: application: it has no kind of workspace: add one, [workspaces.NAME] in TOML",
        ),
        (
            "records = \"both\"",
            "line 3, column 11: application: records is \"both\": use \"split\" or \"single\"",
        ),
        (
            "documents = 1",
            "line 3, column 13: application: documents must be a table, as in [documents.NAME], not an integer",
        ),
    ]);
}

#[test]
fn sequences_are_refused_at_the_line() {
    check(&[
        (
            "[sequences.\"sys.X\"]\n[workspaces.w]",
            "line 3, column 12: sequence sys.X: names that begin with sys. are reserved: choose another name",
        ),
        (
            "[sequences.S]\nstart = 1",
            "line 4, column 1: sequence S: unknown key start: use first, last, ranges, space",
        ),
        (
            "[sequences.S]\nfirst = 1.5",
            "line 4, column 9: sequence S: first must be a whole number, as in first = 1, not a number with a point",
        ),
        (
            "[sequences.S]\nlast = 9\nranges = [[1, 2]]",
            "line 4, column 8: sequence S: last is used with first only, and ranges have their own ends: remove last",
        ),
        (
            "[sequences.S]\nranges = [[1, 2], [3]]",
            "line 4, column 19: sequence S: a range has two numbers, its first and its last, not 1",
        ),
        (
            "[sequences.S]\nranges = [1, 2]",
            "line 4, column 11: sequence S: ranges must be a list of pairs, as in ranges = [[1000, 1999], \
             [5000, 9999]], not an integer",
        ),
        (
            "[sequences.S]\nranges = [[1, 5], [5, 9]]\n[workspaces.w]",
            "line 4, column 10: sequence S: its ranges must be ascending and must not overlap",
        ),
        (
            "[sequences.S]\nfirst = 9\nlast = 3\n[workspaces.w]",
            "line 3, column 12: sequence S: a range ends before it begins",
        ),
        (
            "[sequences.S]\nfirst = 7\nranges = [[1, 5]]\n[workspaces.w]",
            "line 5, column 10: sequence S: its first number must be in one of its ranges",
        ),
        (
            "[sequences.S]\nspace = \"n\"\n[sequences.T]\nspace = \"n\"\n[workspaces.w]\nsequences = [\"S\", \"T\"]",
            "line 6, column 9: sequence T: it shares a space with sequence S, and both could give 1: choose ranges \
             that do not overlap",
        ),
    ]);
}

#[test]
fn documents_are_refused_at_the_line() {
    check(&[
        (
            "[documents.D]",
            "line 3, column 12: document D: kind is missing: use \"C\", \"O\" or \"W\", or name the parent of a \
             child record with parent",
        ),
        (
            "documents.D = 3",
            "line 3, column 11: document D: it must be a table, as in { KEY = VALUE }, not an integer",
        ),
        (
            "[documents.D]\nkind = \"c\"",
            "line 4, column 8: document D: kind is \"c\": use \"C\", \"O\" or \"W\"",
        ),
        (
            "[documents.acme.D]\nkind = \"C\"",
            "line 3, column 17: document acme: unknown key D: use kind, parent, singleton, fields; a name with a \
             dot is written in quotes, [documents.\"acme.D\"]",
        ),
        (
            "[documents.D]\nkind = \"O\"\nsingleton = true\n[workspaces.w]",
            "line 5, column 13: document D: an O document is stored in its event and cannot be a singleton: make it a C \
             or W document",
        ),
        (
            "[documents.D]\nparent = \"E\"\nkind = \"C\"",
            "line 5, column 8: document D: a child record has the kind of its parent: remove kind",
        ),
        (
            "[documents.D]\nparent = \"E\"\nsingleton = true",
            "line 5, column 13: document D: a child record cannot be a singleton: remove singleton",
        ),
        (
            "[documents.D]\nparent = \"E\"\n[workspaces.w]",
            "line 4, column 10: document D: its parent E is not a document: define it, or correct the name",
        ),
        (
            "[documents.D]\nparent = \"E\"\n[documents.E]\nparent = \"D\"\n[workspaces.w]",
            "line 4, column 10: document D: its parent E is also its descendant: give one of them a kind \
             instead of a parent",
        ),
    ]);
}

#[test]
fn fields_are_refused_at_the_line() {
    let document =
        |fields: &str| format!("[documents.D]\nkind = \"W\"\n{fields}\n[workspaces.w]\n[sequences.S]");
    let table = [
        (
            "fields = 1",
            "line 5, column 10: document D: fields must be a table, as in fields.NAME = \"text\", not an integer",
        ),
        (
            "fields.f = 1",
            "line 5, column 8: field f of document D: it must be a type, as in \"text\", or a table, as in { type = \
             \"text\", required = true }",
        ),
        (
            "fields.f = \"string\"",
            "line 5, column 8: field f of document D: \"string\" is not a type: use text, integer, decimal, bool, \
             timestamp, reference or json",
        ),
        (
            "fields.f = { type = \"int\" }",
            "line 5, column 21: field f of document D: \"int\" is not a type: use text, integer, decimal, bool, \
             timestamp, reference or json",
        ),
        (
            "fields.f = { required = true }",
            "line 5, column 8: field f of document D: type is missing: use text, integer, decimal, bool, timestamp, \
             reference or json",
        ),
        (
            "fields.f = { type = \"text\", must = true }",
            "line 5, column 29: field f of document D: unknown key must: use type, to, draw, required",
        ),
        (
            "fields.f = { type = \"text\", required = 1 }",
            "line 5, column 40: field f of document D: required must be true or false, as in required = true, not an \
             integer",
        ),
        (
            "fields.f = { type = \"text\", to = \"D\" }",
            "line 5, column 34: field f of document D: to is for references only, and the type is text: remove \
             one of them",
        ),
        (
            "fields.f = { to = \"E\" }",
            "line 5, column 19: field f of document D: it refers to E, which is not a document: define it, or \
             correct the name",
        ),
        (
            "fields.f = { draw = \"T\" }",
            "line 5, column 21: field f of document D: it draws from T, which is not a sequence: define it, or \
             correct the name",
        ),
        (
            "fields.f = { draw = \"S\", type = \"text\" }",
            "line 5, column 33: field f of document D: it is drawn from a sequence and must be an integer, not text",
        ),
        (
            "fields.f = { draw = \"S\", required = true }",
            "line 5, column 37: field f of document D: it is drawn from a sequence, so every record has it: \
             remove required",
        ),
        (
            "fields.\"a b\" = \"text\"",
            "line 5, column 8: field a b of document D: a name has 1 to 100 of the characters A-Z a-z 0-9 . _ -",
        ),
    ];
    for (fields, message) in table {
        check(&[(&document(fields), message)]);
    }
}

#[test]
fn commands_and_kinds_are_refused_at_the_line() {
    check(&[
        (
            "[commands.Do]\nargs = \"json\"",
            "line 4, column 1: command Do: unknown key args: use argument, unlogged, sequences",
        ),
        (
            "[commands.Do]\nargument = \"D\"\n[workspaces.w]",
            "line 4, column 12: command Do: its argument D is not a document: define it, or use \"none\" or \"json\"",
        ),
        (
            "[commands.Do]\nargument = \"L\"\n[documents.D]\nkind = \"O\"\n[documents.L]\nparent = \"D\"\n[workspaces.w]",
            "line 4, column 12: command Do: its argument L is a child record: use D instead",
        ),
        (
            "[commands.Do]\nsequences = [\"S\"]\n[workspaces.w]",
            "line 4, column 14: command Do: S is not a sequence of the application: define it, or remove it here",
        ),
        (
            "[workspaces.w]\ndocuments = [\"D\"]",
            "line 4, column 14: workspace kind w: D is not a document of the application: define it, or remove it \
             here",
        ),
        (
            "[workspaces.w]\ndocuments = [\"D\", \"D\"]\n[documents.D]\nkind = \"C\"",
            "line 4, column 19: workspace kind w: document D is listed twice: remove one",
        ),
        (
            "[workspaces.w]\ndocuments = [\"D\", 7]",
            "line 4, column 19: workspace kind w: documents must be a list of names, as in documents = [\"…\"], not an \
             integer",
        ),
        (
            "[workspaces.w]\ndocuments = [\"L\"]\n[documents.D]\nkind = \"O\"\n[documents.L]\nparent = \"D\"",
            "line 4, column 14: workspace kind w: L is a child record and is included with D: remove it",
        ),
        (
            "[workspaces.w]\ncommands = \"all\"",
            "line 4, column 12: workspace kind w: commands must be a list of names, as in commands = [\"…\"], not a \
             text",
        ),
        (
            "[workspaces.w]\ncommands = [\"Do\"]\ndocuments = []\n[commands.Do]\nargument = \"D\"\n[documents.D]\n\
             kind = \"O\"",
            "line 4, column 13: workspace kind w: command Do takes D, which the kind does not have: add D to its \
             documents",
        ),
    ]);
}

#[test]
fn too_many_of_anything_is_too_large() {
    let mut text = format!("{HEAD}[workspaces.w]\n[sequences]\n");
    for number in 0..=limits::SEQUENCES_MAX {
        text.push_str(&format!("s{number} = {{}}\n"));
    }
    let error = read(&text).unwrap_err();
    assert_eq!(error.kind(), seriatim_types::ErrorKind::TooLarge);
    assert_eq!(error.to_string(), "line 4, column 1: application: 1001 sequences are too many: at most 1000");
}

#[test]
fn short_and_long_forms_have_the_same_meaning() {
    let fields =
        |text: &str| accepted(&format!("[sequences.S]\n[documents.D]\nkind = \"C\"\n{text}")).documents;
    let table = [
        ("fields.f = \"text\"", "fields.f = { type = \"text\", required = false }"),
        ("fields.f = { to = \"D\" }", "[documents.D.fields]\nf = { type = \"reference\", to = \"D\" }"),
        ("fields.f = { draw = \"S\" }", "[documents.D.fields.f]\ntype = \"integer\"\ndraw = \"S\""),
        ("", "singleton = false"),
    ];
    for (short, long) in table {
        assert_eq!(fields(short), fields(long), "{short}");
    }
    let sequence = |text: &str| accepted(&format!("[sequences.S]\n{text}")).sequences.remove(0);
    assert_eq!(sequence(""), SequenceDefinition::new("S", 1));
    assert_eq!(sequence("last = 9"), SequenceDefinition::with_ranges("S", &[1..=9]));
    assert_eq!(sequence("ranges = [[5, 9]]\nfirst = 6"), sequence("ranges = [[5, 9]]").starting_at(6));
}

#[test]
fn items_keep_the_order_of_the_text() {
    let text = "[documents.Z]\nkind = \"C\"\nfields.z = \"text\"\nfields.a = \"json\"\n[documents.A]\nparent = \"Z\"";
    let documents = accepted(text).documents;
    assert_eq!([&documents[0].name, &documents[1].name], ["Z", "A"]);
    assert_eq!(documents[0].fields[1], FieldDefinition::new("a", FieldType::Json));
    assert_eq!(documents[1].place, Place::Child { parent: "Z".to_owned() });
}
