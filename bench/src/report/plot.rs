//! A row as a picture: one bar per contender, with its spread over the rounds.
//!
//! The colours suit light and dark pages; text takes the page's side by a media query.

use std::fmt::Write;

use super::words::duration;
use crate::row::Side;
use crate::run::{ContenderResult, RaceResult, RowResult};

const WIDTH: f64 = 920.0;
const NAMES: f64 = 360.0;
const BARS: f64 = 400.0;
const LINE: f64 = 22.0;
const HEAD: f64 = 56.0;

/// Beyond this ratio of the largest to the smallest cost the axis is logarithmic.
const LINEAR_MAX: f64 = 25.0;

const STYLE: &str = "\
text { font: 13px system-ui, 'DejaVu Sans', sans-serif; fill: #3d444d } .title { font-weight: 600; font-size: 15px } \
.race { font-weight: 600 } .value { fill: #656d76 } .ours { fill: #1f7a8c } .floor { fill: #8c959f } \
.peer { fill: #d18f52 } .spread { stroke: #57606a; stroke-width: 1.5 } \
@media (prefers-color-scheme: dark) { text { fill: #d1d7e0 } .value { fill: #9198a1 } \
.ours { fill: #4db3c8 } .spread { stroke: #d1d7e0 } }";

/// The picture of a row.
pub(super) fn svg(row: &RowResult) -> String {
    let mut body = String::new();
    let mut y = HEAD;
    let title = format!("{}: {}", row.name, row.title);
    let _ = writeln!(body, "<text class=\"title\" x=\"8\" y=\"22\">{}</text>", escape(&title));
    let legend =
        [(Side::Ours, "tenure"), (Side::Floor, "floor: bare system calls"), (Side::Peer, "others")];
    for (number, (side, words)) in legend.into_iter().enumerate() {
        let x = 8 + 200 * number;
        let class = class(side);
        let _ = writeln!(
            body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"36\" width=\"12\" height=\"12\" rx=\"2\"/>\
             <text class=\"value\" x=\"{}\" y=\"47\">{words}</text>",
            x + 18,
        );
    }
    for race in &row.races {
        draw(&mut body, race, &mut y);
    }
    let height = y + 8.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">\n\
         <style>{STYLE}</style>\n{body}</svg>\n",
        escape(&title)
    )
}

fn class(side: Side) -> &'static str {
    match side {
        Side::Ours => "ours",
        Side::Floor => "floor",
        Side::Peer => "peer",
    }
}

fn draw(body: &mut String, race: &RaceResult, y: &mut f64) {
    let measured: Vec<(&ContenderResult, (f64, f64, f64))> =
        race.contenders.iter().filter_map(|one| Some((one, one.cost(race.measure)?))).collect();
    let Some(scale) = Scale::of(measured.iter().map(|(_, cost)| *cost)) else { return };
    let axis = if scale.is_log { ", logarithmic" } else { "" };
    let heading = format!("{} ({}{axis}; less is better)", race.name, race.measure.words());
    *y += LINE;
    let _ = writeln!(
        body,
        "<text class=\"race\" x=\"8\" y=\"{:.0}\">{}</text>",
        *y - 6.0,
        escape(&heading)
    );
    for (one, (cost, least, most)) in measured {
        let class = class(one.side);
        let (top, middle) = (*y + 3.0, *y + LINE / 2.0);
        let (bar, from, to) = (scale.at(cost), scale.at(least), scale.at(most));
        let _ = writeln!(
            body,
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"{NAMES}\" y=\"{top:.1}\" width=\"{bar:.1}\" height=\"{:.0}\" rx=\"2\"/>\
             <line class=\"spread\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>\
             <text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            NAMES - 8.0,
            middle + 4.5,
            escape(&one.name),
            LINE - 6.0,
            NAMES + from,
            NAMES + to,
            NAMES + bar.max(to) + 8.0,
            middle + 4.5,
            duration(cost),
        );
        *y += LINE;
    }
    *y += 6.0;
}

/// How costs become lengths.
#[derive(Debug)]
struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    fn of(costs: impl Iterator<Item = (f64, f64, f64)>) -> Option<Self> {
        let all: Vec<f64> = costs.flat_map(|(cost, least, most)| [cost, least, most]).collect();
        let low = all.iter().copied().filter(|cost| *cost > 0.0).min_by(f64::total_cmp)?;
        let high = all.iter().copied().max_by(f64::total_cmp)?;
        Some(Self { low: low / 2.0, high, is_log: high / low > LINEAR_MAX })
    }

    fn at(&self, cost: f64) -> f64 {
        let part = if self.is_log {
            (cost.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            cost / self.high
        };
        BARS * part
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
