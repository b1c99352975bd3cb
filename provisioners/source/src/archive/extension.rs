//! Extension headers: PAX records and GNU long names. Bounded, and read by their lengths.

use std::io::{self, Read};

use tar::EntryType;

use super::Error;
use super::name::shown;

/// The largest extension header that is read. Extended attributes can be long, names are limited elsewhere.
const MAXIMUM_BYTES: u64 = 1024 * 1024;

/// What the extension headers before an entry say about it.
#[derive(Default)]
pub(super) struct Extensions {
    pax_name: Option<Vec<u8>>,
    pax_target: Option<Vec<u8>>,
    gnu_name: Option<Vec<u8>>,
    gnu_target: Option<Vec<u8>>,
    pub(super) size_bytes: Option<u64>,
    pub(super) sparse: bool,
    pending: bool,
}

impl Extensions {
    /// Takes `entry` in if it is an extension header. `false` if it is an entry of its own.
    pub(super) fn take_header<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<bool, Error> {
        match entry.header().entry_type() {
            EntryType::XHeader => {
                let records = read(entry)?;
                self.take_pax(&records).map_err(Error::Read)?;
            }
            EntryType::GNULongName => self.gnu_name = Some(until_nul(read(entry)?)),
            EntryType::GNULongLink => self.gnu_target = Some(until_nul(read(entry)?)),
            // Defaults for all entries: git writes its commit there. None of what we read can sensibly be a default.
            EntryType::XGlobalHeader => return Ok(true),
            _ => return Ok(false),
        }
        self.pending = true;
        Ok(true)
    }

    /// `Err` if a header waits for an entry that never came.
    pub(super) fn finish(self) -> Result<(), Error> {
        if self.pending { Err(Error::Read(bad("the archive ends behind an extension header"))) } else { Ok(()) }
    }

    pub(super) fn name(&self) -> Result<Option<Vec<u8>>, Error> {
        one_of(self.pax_name.as_ref(), self.gnu_name.as_ref())
    }

    pub(super) fn target(&self) -> Result<Option<Vec<u8>>, Error> {
        one_of(self.pax_target.as_ref(), self.gnu_target.as_ref())
    }

    fn take_pax(&mut self, mut records: &[u8]) -> io::Result<()> {
        // "<length> <key>=<value>\n" where the length is that of the whole record. Values may hold line ends.
        while !records.is_empty() {
            let space = records.iter().take(20).position(|byte| *byte == b' ');
            let record = space
                .and_then(|space| str::from_utf8(&records[..space]).ok()?.parse::<usize>().ok())
                .and_then(|length| records.split_at_checked(length));
            let (Some(space), Some((record, rest))) = (space, record) else { return Err(bad(MALFORMED)) };
            records = rest;
            let text = record.get(space + 1..).and_then(|text| text.strip_suffix(b"\n"));
            let equals = text.and_then(|text| text.iter().position(|byte| *byte == b'='));
            let (Some(text), Some(equals)) = (text, equals) else { return Err(bad(MALFORMED)) };
            self.take_record(&text[..equals], &text[equals + 1..])?;
        }
        Ok(())
    }

    fn take_record(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        // An empty value takes an earlier one back.
        let value_or_none = || (!value.is_empty()).then(|| value.to_vec());
        match key {
            b"path" => self.pax_name = value_or_none(),
            b"linkpath" => self.pax_target = value_or_none(),
            b"size" => {
                let size = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.size_bytes = Some(size.ok_or_else(|| bad(MALFORMED))?);
            }
            _ if key.starts_with(b"GNU.sparse.") => self.sparse = true,
            _ => {}
        }
        Ok(())
    }
}

const MALFORMED: &str = "malformed PAX record";

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn read<R: Read>(entry: &mut tar::Entry<'_, R>) -> Result<Vec<u8>, Error> {
    if entry.size() > MAXIMUM_BYTES {
        let entry = shown(&entry.header().path_bytes());
        return Err(Error::Header { entry, what: "an extension header of more than 1 MiB" });
    }
    let mut bytes = Vec::new();
    let size = entry.size();
    entry.read_to_end(&mut bytes).map_err(Error::Read)?;
    if bytes.len() as u64 == size { Ok(bytes) } else { Err(Error::Read(io::ErrorKind::UnexpectedEof.into())) }
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    bytes
}

fn one_of(pax: Option<&Vec<u8>>, gnu: Option<&Vec<u8>>) -> Result<Option<Vec<u8>>, Error> {
    match (pax, gnu) {
        (Some(pax), Some(gnu)) if pax != gnu => {
            Err(Error::Header { entry: shown(pax), what: "its two extension headers give two names" })
        }
        (Some(name), _) | (None, Some(name)) => Ok(Some(name.clone())),
        (None, None) => Ok(None),
    }
}
