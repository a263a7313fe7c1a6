//! A decision says what becomes of the files' content: it is taken, refused, or waited for. The
//! head of [`settle`](crate::catalog::settle) defines *whole* and *closed* texts.

use super::{LOOK_INTERVAL, PendingDecision, Wait, Watch, was_changed_within};
use crate::base::clock::Clock;
use crate::base::problem::{Problem, Problems};
use crate::catalog::load::{self, ReadCatalog};
use crate::catalog::settle::{Decision, ENDLESS_AFTER, Ready, STILL_TIME, WholeTexts};
use crate::catalog::texts::{Texts, is_source};
use crate::catalog::{Catalog, describe_losses, published_key_problem};
use crate::inventory::only_adds_or_disables;
use crate::live::Snapshot;
use crate::live::good::{Blame, name_in};
use crate::live::reload::RefusedReload;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

/// The time for which a faulty change waits for its other half, which may be in a file that is
/// still being written.
const OTHER_HALF_WAIT: Duration = Duration::from_millis(1_200);
/// The time after which a change that takes away more than half of something is taken.
const SHRINK_WAIT: Duration = Duration::from_secs(5);
/// The most catalogs of the past that are kept.
const MAX_PAST: usize = 16;

impl Watch {
    /// Decides on the whole texts, if it is time.
    pub(super) fn decide(&mut self) {
        let now = Instant::now();
        let ready = self.live.reloads.settling.lock().ready(now);
        let (oldest_change, all_are_whole) = match ready {
            Ready::Whole { .. } if now < self.next_catalog_at => return,
            Ready::Whole {
                oldest_change,
                all_are_whole,
            } => (oldest_change, all_are_whole),
            Ready::Wait => return self.decide_on_closed(now),
            Ready::Nothing => {
                self.pending = None;
                return;
            }
        };
        let whole = self.live.reloads.settling.lock().whole_texts();
        let texts: Texts = whole
            .iter()
            .map(|(path, (version, _))| (path.clone(), version.clone()))
            .collect();
        let is_tried = self.pending.as_ref().is_some_and(|tried| {
            tried.texts == texts
                && (tried.all_were_whole || !all_are_whole)
                && !tried.wait.is_over(now)
        });
        if is_tried {
            return;
        }
        let read = self.make_catalog(&texts);
        let undecided = self.take_or_refuse(read, &whole, oldest_change, all_are_whole);
        self.pending = undecided.map(|wait| PendingDecision {
            texts,
            all_were_whole: all_are_whole,
            wait,
        });
        let ended = Instant::now();
        // The pause between two catalogs is as long as the making of one, but no more than half a
        // second.
        self.next_catalog_at = ended + ended.duration_since(now).min(STILL_TIME);
    }

    /// Decides on the closed texts of files that are written without a pause. They are not known to
    /// be whole, so they are taken only if nothing could be cut away, and all else waits.
    fn decide_on_closed(&mut self, now: Instant) {
        if now < self.next_catalog_at {
            return;
        }
        let closed = self.live.reloads.settling.lock().closed_texts(now);
        if closed.is_empty() {
            return;
        }
        let mut texts = self.good.live.clone();
        texts.extend(
            closed
                .iter()
                .map(|(path, (version, _))| (path.clone(), version.clone())),
        );
        let ReadCatalog {
            catalog,
            texts: read_texts,
            ..
        } = self.make_catalog(&texts);
        let live = self.live.load_full();
        let taken = self.check_allowed(catalog).ok().filter(|catalog| {
            catalog.digest == live.catalog.digest
                || only_adds_or_disables(&live.catalog, catalog, SystemTime::now())
        });
        let taken = taken.filter(|_| !self.follow_new_files(&read_texts, Instant::now()));
        let decision = match taken {
            Some(catalog) => {
                self.make_closed_live(&live, catalog, &closed);
                self.good.live = read_texts;
                Decision::Live
            }
            None => Decision::NotLive,
        };
        let ended = Instant::now();
        self.live
            .reloads
            .settling
            .lock()
            .note_closed_decision(closed, decision, ended);
        // What is written without a pause does not keep this thread busy without a pause.
        self.next_catalog_at = ended + ended.duration_since(now).max(STILL_TIME);
    }

    /// Makes a catalog with closed texts the live one.
    fn make_closed_live(&mut self, live: &Arc<Snapshot>, catalog: Catalog, closed: &WholeTexts) {
        if catalog.digest != live.catalog.digest {
            let names: Vec<_> = closed.keys().map(|path| name_in(&self.dir, path)).collect();
            self.make_live(live, catalog);
            log::info!(
                "{} is written without a pause: new entries and `enabled: false` in it are live; other changes wait until it rests",
                names.join(", ")
            );
        }
        let was_refused = !self.good.refused.is_empty();
        self.good
            .refused
            .retain(|path, _| !closed.contains_key(path));
        if was_refused && self.good.refused.is_empty() {
            self.note_recovery();
        }
    }

    /// Returns the catalog that the texts make. A large catalog takes its time; the files are
    /// looked at meanwhile, as before.
    fn make_catalog(&mut self, texts: &Texts) -> ReadCatalog {
        let (sender, receiver) = channel();
        let (dir, known, size) = (self.dir.clone(), texts.clone(), self.catalog_size);
        // If no task waits for the result any more, it is not needed.
        let make = move || drop(sender.send(load::of_texts(&dir, known, size)));
        let maker = std::thread::Builder::new()
            .name("catalog-maker".to_owned())
            .spawn(make);
        while maker.is_ok() {
            match receiver.recv_timeout(LOOK_INTERVAL) {
                Ok(read) => return read,
                Err(RecvTimeoutError::Timeout) => {
                    self.take_events();
                    self.read_files();
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        load::of_texts(&self.dir, texts.clone(), self.catalog_size)
    }

    /// Takes or refuses the catalog that was made of the texts. If it is too early for either,
    /// returns how long the decision waits.
    fn take_or_refuse(
        &mut self,
        read: ReadCatalog,
        whole: &WholeTexts,
        oldest_change: Instant,
        all_are_whole: bool,
    ) -> Option<Wait> {
        let ReadCatalog {
            catalog,
            texts: read_texts,
            ..
        } = read;
        let now = Instant::now();
        if self.follow_new_files(&read_texts, now)
            && now.duration_since(oldest_change) < ENDLESS_AFTER
        {
            return Some(Wait::Until(now));
        }
        let live = self.live.load_full();
        let catalog = match self.check_allowed(catalog) {
            Ok(catalog) => catalog,
            // The other half of the change may be in a file that is not whole yet.
            Err((problems, reasons)) => {
                let blame = self.good.blame(whole, &problems, now);
                let waits = now.duration_since(oldest_change) < OTHER_HALF_WAIT;
                if !blame.were_refused && !all_are_whole && waits {
                    return Some(Wait::Until(oldest_change + OTHER_HALF_WAIT));
                }
                self.refuse(reasons, blame.files.clone());
                return self.take_other_files(blame, read_texts, whole);
            }
        };
        let wait = self.delay_if_shrunk(&live, &catalog);
        if wait.is_none() {
            self.make_live(&live, catalog);
            self.note_recovery();
            self.good.live = read_texts.clone();
            self.finish_decision(&read_texts, whole, Decision::Live);
        }
        wait
    }

    /// Takes the changes of the other files, with the last good content of the wrong ones. Changes
    /// that came together with a new fault are not taken.
    fn take_other_files(
        &mut self,
        blame: Blame,
        read_texts: Texts,
        whole: &WholeTexts,
    ) -> Option<Wait> {
        let Blame {
            files: mut bad,
            were_refused,
        } = blame;
        let live = self.live.load_full();
        while were_refused && self.good.has_more(whole, &bad) {
            let ReadCatalog { catalog, texts, .. } =
                self.make_catalog(&self.good.instead_of(whole, &bad));
            match self.check_allowed(catalog) {
                Ok(catalog) => {
                    let wait = self.delay_if_shrunk(&live, &catalog);
                    if wait.is_some() {
                        return wait;
                    }
                    self.make_live_without(&live, catalog, &bad);
                    self.good.live = texts.clone();
                    let mut taken = whole.clone();
                    taken.retain(|path, _| !bad.contains_key(path));
                    // The refused files may name files that are not there yet.
                    self.finish_decision(
                        &texts.into_iter().chain(read_texts).collect(),
                        whole,
                        Decision::NotLive,
                    );
                    let mut settling = self.live.reloads.settling.lock();
                    settling.note_decision(&taken, Decision::Live);
                    return None;
                }
                Err((problems, _)) if !self.good.blame_more(whole, &problems, &mut bad) => break,
                Err(_) => {}
            }
        }
        // The changes of the other files are refused, too. The new time shows it to whoever waits
        // for one of them, such as `key new`.
        if let Some(refused) = &mut self.live.reloads.status.lock().refused {
            refused.refused_at = SystemTime::now();
        }
        self.finish_decision(&read_texts, whole, Decision::NotLive);
        None
    }

    /// Returns how long a change waits, if it takes away more than half of something.
    fn delay_if_shrunk(&mut self, live: &Snapshot, catalog: &Catalog) -> Option<Wait> {
        let now = Clock::now();
        if let Some(loss) = describe_losses(&live.catalog, catalog) {
            let taken_at = *self.shrink_seen_at.get_or_insert_with(|| {
                log::warn!(
                    "the new catalog {loss}, compared to the live one: the gateway waits {} s before it takes it",
                    SHRINK_WAIT.as_secs()
                );
                now
            }) + SHRINK_WAIT;
            if now < taken_at {
                self.live.reloads.status.lock().hold_reason = Some(loss);
                return Some(Wait::UntilClock(taken_at));
            }
            log::warn!(
                "the new catalog {loss}, and the files stayed so for {} s: the gateway takes it",
                SHRINK_WAIT.as_secs()
            );
            self.publisher.metrics.catalog.shrunk.inc();
        }
        None
    }

    /// Follows the files that the catalog names and that were never looked at. Returns whether any
    /// followed file was not seen whole yet.
    fn follow_new_files(&mut self, read_texts: &Texts, now: Instant) -> bool {
        let clock = SystemTime::now();
        let mut settling = self.live.reloads.settling.lock();
        for (path, version) in read_texts {
            if !settling.follows(path) {
                self.named.insert(path.clone());
                settling.follow_named(
                    path.clone(),
                    version.clone(),
                    !was_changed_within(version, STILL_TIME, clock),
                    now,
                );
            }
        }
        !settling.is_complete()
    }

    /// Returns a catalog that may be live, or the problems and the reasons why it may not.
    fn check_allowed(
        &self,
        catalog: Result<Catalog, Problems>,
    ) -> Result<Catalog, (Vec<Problem>, Vec<String>)> {
        let catalog = catalog.map_err(|Problems(problems, _)| {
            let reasons = problems.iter().map(ToString::to_string).collect();
            (problems, reasons)
        })?;
        match published_key_problem(&catalog, &self.listen) {
            Some(problem) => Err((Vec::new(), vec![problem])),
            None => Ok(catalog),
        }
    }

    /// Logs that these files are refused, once for the same content, and keeps the refusal for
    /// `/status`.
    fn refuse(&mut self, reasons: Vec<String>, bad: Texts) {
        if !self.good.note_refused(bad)
            && self
                .live
                .reloads
                .status()
                .refused
                .is_some_and(|refused| refused.standing && refused.reasons == reasons)
        {
            return;
        }
        log::error!(
            "the new catalog is refused, and the old one stays live: {}",
            reasons.join("; ")
        );
        let refused = RefusedReload {
            refused_at: SystemTime::now(),
            standing: true,
            reasons,
            withheld: Vec::new(),
        };
        self.live.reloads.status.lock().refused = Some(refused);
        // The metric comes last, so that whoever is alarmed by it finds the reasons.
        self.publisher.metrics.reload_refused();
    }

    /// Makes a catalog the live one, unless it is equal to the live one.
    fn make_live(&mut self, live: &Arc<Snapshot>, catalog: Catalog) {
        if catalog.digest == live.catalog.digest {
            log::info!(
                "the files hold the live catalog again (catalog {})",
                live.generation
            );
        } else {
            for warning in new_warnings(&live.catalog.warnings, &catalog.warnings) {
                log::warn!("{warning}");
            }
            self.past.push(self.publisher.publish(catalog));
            self.past.retain(|past| Arc::strong_count(past) > 1);
            if self.past.len() > MAX_PAST {
                // The exchanges of this catalog have run for long. The last of them drops it.
                self.past.remove(0);
            }
            let live = self.live.load_full();
            log::info!(
                "catalog {} is live: {}",
                live.generation,
                live.catalog.size()
            );
        }
    }

    /// Takes a catalog that has the last good content of the files that are wrong.
    fn make_live_without(&mut self, live: &Arc<Snapshot>, catalog: Catalog, bad: &Texts) {
        let withheld: Vec<PathBuf> = bad.keys().cloned().collect();
        let names: Vec<_> = withheld
            .iter()
            .map(|path| name_in(&self.dir, path))
            .collect();
        self.make_live(live, catalog);
        log::error!(
            "{} is still refused: its last good content stays live; the changes of the other files are live, too",
            names.join(", ")
        );
        if let Some(refused) = &mut self.live.reloads.status.lock().refused {
            refused.withheld = withheld;
        }
    }

    /// Notes that the whole content of the files is live.
    fn note_recovery(&mut self) {
        self.good.refused.clear();
        if let Some(refused) = &mut self.live.reloads.status.lock().refused {
            (refused.standing, refused.withheld) = (false, Vec::new());
        }
        self.publisher.metrics.catalog.reload_failed.set(0);
    }

    /// Notes that the decision on these texts is made. Files that were looked for in vain are
    /// followed too: one of them may be the one that mends an error.
    fn finish_decision(&mut self, read_texts: &Texts, whole: &WholeTexts, decision: Decision) {
        self.shrink_seen_at = None;
        self.live.reloads.status.lock().hold_reason = None;
        self.named = read_texts
            .keys()
            .filter(|path| !is_source(&self.dir, path))
            .cloned()
            .collect();
        let mut settling = self.live.reloads.settling.lock();
        settling.note_decision(whole, decision);
        settling.keep_only(|path| is_source(&self.dir, path) || self.named.contains(path));
    }
}

/// Returns the warnings that were not there before. Their lines do not count: a new line moves all
/// that follow.
fn new_warnings<'w>(before: &[Problem], now: &'w [Problem]) -> impl Iterator<Item = &'w Problem> {
    let known: HashSet<_> = before
        .iter()
        .map(|warning| (&warning.file, &warning.path, &warning.message))
        .collect();
    now.iter()
        .filter(move |warning| !known.contains(&(&warning.file, &warning.path, &warning.message)))
}
