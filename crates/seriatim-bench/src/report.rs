//! The report of a run, as a table and as JSON.

use std::io::{self, Write};

use serde::Serialize;

use crate::machine::Machine;
use crate::measure::Measure;
use crate::table::{self, Align};

/// The report of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    suite: &'static str,
    quick: bool,
    machine: Machine,
    measures: Vec<Measure>,
}

impl Report {
    /// The report of a suite.
    pub(crate) fn new(suite: &'static str, quick: bool, machine: Machine, measures: Vec<Measure>) -> Self {
        Self { suite, quick, machine, measures }
    }

    /// A line about the machine, then one line per measure, then the reasons.
    pub(crate) fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}\n", self.machine)?;
        let columns = [
            ("measure", Align::Left),
            ("value", Align::Right),
            ("unit", Align::Left),
            ("peer", Align::Left),
            ("its value", Align::Right),
            ("ratio", Align::Right),
            ("goal", Align::Left),
            ("met", Align::Left),
        ];
        let rows: Vec<_> = self.measures.iter().map(row).collect();
        table::write(out, &columns, &rows)?;
        for measure in &self.measures {
            if let Some(reason) = &measure.reason {
                writeln!(out, "{}: {reason}", measure.name)?;
            }
        }
        Ok(())
    }

    /// One JSON object on one line.
    pub(crate) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        writeln!(out)?;
        out.flush()
    }
}

fn row(measure: &Measure) -> [String; 8] {
    let met = match measure.met {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "",
    };
    [
        measure.name.clone(),
        table::number(measure.value),
        measure.unit.to_owned(),
        measure.peer.clone().unwrap_or_default(),
        measure.peer_value.map(table::number).unwrap_or_default(),
        measure.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        measure.goal.map(|goal| goal.to_string()).unwrap_or_default(),
        met.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Goal;

    fn report() -> Report {
        let machine = Machine {
            cores: 2,
            cpu: "a processor".to_owned(),
            memory_bytes: 8 << 30,
            kernel: "6.1".to_owned(),
            filesystem: "ext4".to_owned(),
            fdatasync_median_us: 160.5,
            optimised: true,
        };
        let appends = Measure::new("appends, 64 writers", 123_456.789, "1/s");
        let inserts = Measure::new("commands", 5_000.0, "1/s");
        let measures = vec![
            appends.compared_with("bare file", 137_174.21).goal(Goal::RatioAtLeast(0.85)),
            inserts.goal(Goal::RatioAtLeast(50.0)).without("PostgreSQL", "it is not installed"),
            Measure::new("draw", 0.8, "ns").goal(Goal::AtMost(0.5)),
        ];
        Report::new("log", true, machine, measures)
    }

    #[test]
    fn the_json_is_one_line_with_every_field() {
        let mut out = Vec::new();
        report().write_json(&mut out).unwrap();
        let golden = concat!(
            r#"{"suite":"log","quick":true,"machine":{"cores":2,"cpu":"a processor","memory_bytes":8589934592,"#,
            r#""kernel":"6.1","filesystem":"ext4","fdatasync_median_us":160.5,"optimised":true},"measures":["#,
            r#"{"name":"appends, 64 writers","value":123457.0,"unit":"1/s","peer":"bare file","peer_value":137174.0,"#,
            r#""ratio":0.9,"goal":"ratio ≥ 0.85","met":true},"#,
            r#"{"name":"commands","value":5000.0,"unit":"1/s","peer":"PostgreSQL","peer_value":null,"ratio":null,"#,
            r#""goal":"ratio ≥ 50","met":null,"reason":"it is not installed"},"#,
            r#"{"name":"draw","value":0.8,"unit":"ns","peer":null,"peer_value":null,"ratio":null,"#,
            r#""goal":"≤ 0.5","met":false}]}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), golden);
    }

    #[test]
    fn the_table_is_aligned_and_gives_reasons() {
        let mut out = Vec::new();
        report().write_table(&mut out).unwrap();
        let golden = "\
a processor, 2 cores, 8.0 GiB, Linux 6.1, ext4, fdatasync 160.5 µs

measure                value  unit  peer        its value  ratio  goal          met
appends, 64 writers  123,457  1/s   bare file     137,174   0.90  ratio ≥ 0.85  yes
commands               5,000  1/s   PostgreSQL                    ratio ≥ 50
draw                   0.800  ns                                  ≤ 0.5         NO
commands: it is not installed
";
        assert_eq!(String::from_utf8(out).unwrap(), golden);
    }
}
