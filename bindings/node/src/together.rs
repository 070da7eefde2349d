//! A document and a journal changed in one call.

#![expect(clippy::too_many_arguments, reason = "those of an update and those of an append")]

use napi::Env;
use napi::bindgen_prelude::{FnArgs, Function, PromiseRaw};
use napi_derive::napi;
use tenure::{AppendOptions, Result};

use crate::call::Call;
use crate::document::{Document, Written};
use crate::journal::{Appended, Journal, Line, bytes_of, bytes_of_all};
use crate::options::WriteOptions;
use crate::update::{Ask, Reply, asking, asking_later, by_value};

/// What a change of both did.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Together {
    /// To the document.
    pub written: Written,
    /// To the journal.
    pub appended: Appended,
}

fn change(
    document: &tenure::Document,
    journal: &tenure::Journal,
    lines: &[Vec<u8>],
    options: &AppendOptions,
    ask: Ask<'_>,
) -> Result<Together> {
    let done = tenure::update_and_append(document, journal, lines, options, by_value(ask));
    let (written, appended) = done?;
    Ok(Together { written: written.into(), appended: Appended::new(&appended)? })
}

#[napi]
impl Document {
    /// Updates it and appends lines to a journal on this thread.
    #[napi(catch_unwind)]
    pub fn update_and_append_sync(
        &self,
        journal: &Journal,
        lines: Vec<Line>,
        json: bool,
        header: Option<Line>,
        options: WriteOptions,
        compute: Function<'_, FnArgs<(Option<String>,)>, Option<String>>,
    ) -> napi::Result<Together> {
        let (lines, header) = (bytes_of_all(lines), header.map(bytes_of));
        let options = AppendOptions { write: options.read(&self.address())?, json, header };
        asking(compute, |ask| change(&self.inner, &journal.inner, &lines, &options, ask))
    }

    /// The same on a thread of the crew.
    #[napi(catch_unwind)]
    pub fn update_and_append<'env>(
        &self,
        env: &'env Env,
        call: &Call,
        journal: &Journal,
        lines: Vec<Line>,
        json: bool,
        header: Option<Line>,
        options: WriteOptions,
        max_hold_ms: f64,
        compute: Function<'_, FnArgs<(Option<String>, Reply)>, ()>,
    ) -> napi::Result<PromiseRaw<'env, Together>> {
        let (lines, header) = (bytes_of_all(lines), header.map(bytes_of));
        let (document, journal) = (self.inner.clone(), journal.inner.clone());
        let write = options.read(&self.address())?;
        asking_later(env, call, self.inner.path(), max_hold_ms, compute, move |caller, ask| {
            let options = AppendOptions { write: caller.write(write), json, header };
            change(&document, &journal, &lines, &options, ask)
        })
    }
}
