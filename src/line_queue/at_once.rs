//! Writing to a descriptor without a wait, though its flags stay as they are: it may be shared with other programs.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// The file systems whose files take a write into memory, by the numbers of
/// <https://github.com/torvalds/linux/blob/master/include/uapi/linux/magic.h> and of ZFS. One that is reached over a network may keep
/// who writes waiting.
#[cfg(target_os = "linux")]
const IN_MEMORY: [u32; 9] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0xf2f5_2010, // F2FS
    0xca45_1a4e, // bcachefs
    0x2fc1_2fc1, // ZFS
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
];

/// How a descriptor is written to without a wait.
pub enum AtOnce {
    /// It never is.
    Never,
    /// As it is: a file.
    AsItIs,
    /// By a flag: a socket.
    Flagged,
    /// By another descriptor of the same pipe or terminal.
    Anew(OwnedFd),
}

impl AtOnce {
    pub fn of(descriptor: &impl AsFd) -> Self {
        let Ok(stat) = rustix::fs::fstat(descriptor) else {
            return Self::Never;
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if is_in_memory(descriptor) => Self::AsItIs,
            FileType::Socket => Self::Flagged,
            // Elsewhere what is opened so has the flags of the first.
            FileType::Fifo | FileType::CharacterDevice if cfg!(target_os = "linux") => {
                let path = format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd());
                let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                rustix::fs::open(path, flags, Mode::empty()).map_or(Self::Never, Self::Anew)
            }
            FileType::RegularFile
            | FileType::Directory
            | FileType::Symlink
            | FileType::Fifo
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Self::Never,
        }
    }

    /// Writes what the descriptor takes, and returns how many bytes that were.
    ///
    /// # Errors
    ///
    /// [`Errno::AGAIN`] if it takes none without a wait; else what the system says.
    pub fn write(&self, descriptor: &impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::Never => Err(Errno::AGAIN),
            Self::AsItIs => rustix::io::write(descriptor, bytes),
            Self::Flagged => rustix::net::send(descriptor, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            Self::Anew(other) => rustix::io::write(other, bytes),
        }
    }
}

#[cfg(target_os = "linux")]
fn is_in_memory(file: &impl AsFd) -> bool {
    // The kernel has 32 bits of it, in a field whose width and sign differ by processor.
    rustix::fs::fstatfs(file).is_ok_and(|system| IN_MEMORY.contains(&(system.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_: &impl AsFd) -> bool {
    true
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_disk_takes_what_is_written_and_one_of_another_system_is_not_written_to() {
        let file = tempfile::tempfile().expect("the system has room");
        let at_once = AtOnce::of(&file);
        assert_eq!(at_once.write(&file, b"one\n"), Ok(4));
        let other = std::fs::File::options()
            .write(true)
            .open("/proc/self/oom_score_adj");
        let other = other.expect("Linux has one");
        assert_eq!(AtOnce::of(&other).write(&other, b"0\n"), Err(Errno::AGAIN));
    }

    #[test]
    fn a_socket_and_a_device_take_what_is_written_too() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("the system has sockets");
        assert_eq!(AtOnce::of(&socket).write(&socket, b"one\n"), Ok(4));
        let device = std::fs::File::options().write(true).open("/dev/null");
        let device = device.expect("there is one");
        assert_eq!(AtOnce::of(&device).write(&device, b"one\n"), Ok(4));
    }
}
