//! The body of a request: in its slot, or in a file that the router passed.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::io::{pread, retry_on_intr};

/// The body of one request, read from front to end.
#[derive(Debug)]
pub enum Body<'a> {
    /// In memory.
    Inline(&'a [u8]),
    /// In a file. Its offset is not used: the router may share it.
    File {
        /// The file.
        file: OwnedFd,
        /// Bytes read so far.
        at: u64,
        /// Length in bytes.
        len: u64,
    },
}

impl Body<'_> {
    /// Fills `buffer`; returns fewer bytes only at the end, or when the file cannot be read.
    pub fn read(&mut self, buffer: &mut [MaybeUninit<u8>]) -> usize {
        match self {
            Body::Inline(bytes) => {
                let (now, rest) = bytes.split_at(bytes.len().min(buffer.len()));
                for (to, from) in buffer.iter_mut().zip(now) {
                    to.write(*from);
                }
                *bytes = rest;
                now.len()
            }
            Body::File { file, at, len } => {
                let left = usize::try_from(len.saturating_sub(*at)).unwrap_or(usize::MAX);
                let wanted = buffer.len().min(left);
                let mut done = 0;
                while done < wanted {
                    let part = &mut buffer[done..wanted];
                    match retry_on_intr(|| pread(&*file, &mut *part, *at).map(|(now, _)| now.len()))
                    {
                        Ok(0) | Err(_) => break,
                        Ok(n) => {
                            *at += n as u64;
                            done += n;
                        }
                    }
                }
                done
            }
        }
    }
}
