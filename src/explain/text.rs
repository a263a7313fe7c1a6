//! A report as text for people: short, in columns, the most important part first.

use super::report::{Candidate, CandidateState, Costs, Fact, Report, Upstream};
use crate::plan::Reach;

/// Writes the report. It returns bytes, since a body is written as it would be sent.
pub fn render_report(report: &Report) -> Vec<u8> {
    let mut out = String::new();
    let word = match (report.verdict.tried, report.is_unsure) {
        (true, false) => "yes",
        (true, true) => "perhaps",
        (false, _) => "no",
    };
    out.push_str(&format!("{word}: {}\n\n", report.verdict.sentence));
    let width = report
        .facts
        .iter()
        .map(|fact| fact.about.len())
        .max()
        .unwrap_or_default();
    for Fact {
        about,
        sentence,
        fault,
    } in &report.facts
    {
        out.push_str(&format!(
            "{} {about:width$}  {sentence}\n",
            if *fault { '!' } else { ' ' }
        ));
    }
    write_candidates(&report.candidates, &mut out);
    let mut out = out.into_bytes();
    let mut requests: Vec<_> = report
        .candidates
        .iter()
        .filter_map(|one| Some((one, one.request.as_ref()?)))
        .collect();
    requests.sort_by_key(|(one, _)| one.attempt.unwrap_or(usize::MAX));
    requests
        .into_iter()
        .for_each(|(candidate, request)| write_request(candidate, request, &mut out));
    out
}

fn write_candidates(candidates: &[Candidate], out: &mut String) {
    if candidates.is_empty() {
        return;
    }
    let first = column_width(candidates, |one| &one.account);
    let second = column_width(candidates, |one| &one.upstream_model);
    let mut group = None;
    for one in candidates {
        if group.replace((&one.model, one.reach)) != Some((&one.model, one.reach)) {
            out.push_str(&format!("\n{}\n", group_heading(one, candidates)));
        }
        let never = if one.state == CandidateState::InCase {
            "?"
        } else {
            "-"
        };
        let turn = one
            .attempt
            .map_or_else(|| never.to_owned(), |nth| nth.to_string());
        let (account, model) = (or_dash(&one.account), or_dash(&one.upstream_model));
        out.push_str(&format!(
            "  {turn:>2}  {account:first$}  {model:second$}  {}\n",
            one.why
        ));
        if let Some(does) = &one.does {
            out.push_str(&format!("      {:first$}  {:second$}  {does}\n", "", ""));
        }
        if one.account.is_some() {
            out.push_str(&format!(
                "      {:first$}  {:second$}  {}\n",
                "",
                "",
                price_text(one.price.as_ref())
            ));
        }
    }
}

fn column_width(candidates: &[Candidate], cell: fn(&Candidate) -> &Option<String>) -> usize {
    let widths = candidates
        .iter()
        .map(|one| or_dash(cell(one)).chars().count());
    widths.max().unwrap_or_default()
}

fn or_dash(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("-")
}

fn price_text(price: Option<&Costs>) -> String {
    let Some(Costs { from, costs }) = price else {
        return "price unknown".to_owned();
    };
    let costs: Vec<String> = costs
        .iter()
        .map(|(name, cost)| format!("{name} {cost}"))
        .collect();
    format!("price {} ({from})", costs.join(", "))
}

fn group_heading(one: &Candidate, all: &[Candidate]) -> String {
    let is_own = all.first().is_some_and(|first| first.model == one.model);
    match one.reach {
        Reach::Any if is_own => format!("targets of \"{}\"", one.model),
        Reach::Any => format!("targets of its fallback \"{}\"", one.model),
        Reach::TooLong => format!(
            "targets of \"{}\", for requests that are too long",
            one.model
        ),
        Reach::Declined => format!("targets of \"{}\", for refusals", one.model),
    }
}

fn write_request(candidate: &Candidate, request: &Upstream, out: &mut Vec<u8>) {
    let mut text = String::new();
    let (account, model) = (
        or_dash(&candidate.account),
        or_dash(&candidate.upstream_model),
    );
    let turn = candidate
        .attempt
        .map_or_else(|| "in case".to_owned(), |nth| format!("request {nth}"));
    text.push_str(&format!("\n{turn}: to {account} ({model})\n"));
    let deadlines: Vec<String> = request
        .deadlines
        .iter()
        .map(|(name, time)| format!("{name} {time}"))
        .collect();
    text.push_str(&format!("  deadlines  {}\n", deadlines.join(", ")));
    if let Some(proxy) = &request.proxy {
        text.push_str(&format!("  proxy      {proxy}\n"));
    }
    for (nth, changed) in request.changed.iter().enumerate() {
        text.push_str(&format!(
            "  {:9}  {changed}\n",
            if nth == 0 { "changed" } else { "" }
        ));
    }
    if !request.dropped.is_empty() {
        text.push_str(&format!("  dropped    {}\n", request.dropped.join(", ")));
    }
    match &request.url {
        Some(url) => text.push_str(&format!("\n{} {url}\n", request.method)),
        None => {
            text.push_str("\nThe built-in demo account answers by itself: no server is called.\n")
        }
    }
    for (name, value) in &request.headers {
        text.push_str(&format!("{name}: {value}\n"));
    }
    text.push('\n');
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(&request.body);
    out.push(b'\n');
}
