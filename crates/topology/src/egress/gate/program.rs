//! The program of the gate: hands batches of packet rules to the kernel of the network name space that it is started
//! in, and prints the answers. It needs nothing but a kernel, so that its image holds one small file.
//!
//! Each argument is a batch: `4` or `6` for the family, then its bytes in hexadecimal. Each gets one record on standard
//! output: a letter, the length of what follows as a 32-bit number in this machine's order, and that: `a` the kernel's
//! answers, `s` nothing, for a kernel without IPv6, `e` an error number.

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};

#[cfg(target_arch = "x86_64")]
mod call {
    pub const WRITE: usize = 1;
    pub const SOCKET: usize = 41;
    pub const SENDTO: usize = 44;
    pub const RECVFROM: usize = 45;
    pub const CLOSE: usize = 3;
    pub const EXIT_GROUP: usize = 231;
}

#[cfg(target_arch = "aarch64")]
mod call {
    pub const WRITE: usize = 64;
    pub const SOCKET: usize = 198;
    pub const SENDTO: usize = 206;
    pub const RECVFROM: usize = 207;
    pub const CLOSE: usize = 57;
    pub const EXIT_GROUP: usize = 94;
}

// The kernel puts the arguments onto the stack, not into registers.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {begin}",
    "ud2",
    begin = sym begin
);

#[cfg(target_arch = "aarch64")]
global_asm!(".globl _start", "_start:", "mov x0, sp", "bl {begin}", "brk #1", begin = sym begin);

const NETLINK: usize = 16;
const INET6: usize = 10;
const RAW: usize = 3;
const DATAGRAM: usize = 2;
const CLOSE_ON_EXEC: usize = 0o2_000_000;
const NETFILTER: usize = 12;
const DONT_WAIT: usize = 0x40;
const NO_SUCH_FAMILY: isize = -97;
const AGAIN: isize = -11;
const TOO_BIG: isize = -7;
const INVALID: isize = -22;

const ROOM: usize = 64 * 1024;
static mut BATCH: [u8; ROOM] = [0; ROOM];
static mut ANSWERS: [u8; ROOM] = [0; ROOM];

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(101)
}

/// # Safety
/// `stack` is what the kernel has left for a new process: a count, and that many pointers to texts.
unsafe extern "C" fn begin(stack: *const usize) -> ! {
    let count = unsafe { *stack };
    let mut index = 1;
    while index < count {
        let argument = unsafe { *stack.add(1 + index) } as *const u8;
        unsafe { batch(argument) };
        index += 1;
    }
    exit(0)
}

/// # Safety
/// `argument` ends with a zero. There is one thread, so that the two buffers are nobody else's.
unsafe fn batch(argument: *const u8) {
    let family = unsafe { *argument };
    if family == b'6' {
        let probe = syscall(call::SOCKET, [INET6, DATAGRAM | CLOSE_ON_EXEC, 0, 0, 0, 0]);
        if probe == NO_SUCH_FAMILY {
            return record(b's', core::ptr::null(), 0);
        }
        syscall(call::CLOSE, [probe as usize, 0, 0, 0, 0, 0]);
    }
    let outcome = match unsafe { decode(argument.add(1)) } {
        Ok(length) => exchange(length),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(length) => record(b'a', &raw const ANSWERS as *const u8, length),
        Err(error) => {
            let number = (-error) as u32;
            record(b'e', &raw const number as *const u8, 4);
        }
    }
}

/// # Safety
/// As of [`batch`].
unsafe fn decode(mut text: *const u8) -> Result<usize, isize> {
    let batch = &raw mut BATCH as *mut u8;
    let mut length = 0;
    while unsafe { *text } != 0 {
        let (high, low) = unsafe { (digit(*text), digit(*text.add(1))) };
        if high > 15 || low > 15 {
            return Err(INVALID);
        }
        if length == ROOM {
            return Err(TOO_BIG);
        }
        unsafe { *batch.add(length) = high << 4 | low };
        length += 1;
        text = unsafe { text.add(2) };
    }
    Ok(length)
}

fn digit(letter: u8) -> u8 {
    match letter {
        b'0'..=b'9' => letter - b'0',
        b'a'..=b'f' => letter - b'a' + 10,
        _ => 255,
    }
}

/// The kernel works on a batch while it is being sent, so that all answers are there afterwards.
fn exchange(length: usize) -> Result<usize, isize> {
    let socket = well(syscall(
        call::SOCKET,
        [NETLINK, RAW | CLOSE_ON_EXEC, NETFILTER, 0, 0, 0],
    ))?;
    let batch = &raw const BATCH as usize;
    well(syscall(call::SENDTO, [socket, batch, length, 0, 0, 0]))?;
    let answers = &raw mut ANSWERS as usize;
    let mut filled = 0;
    while filled < ROOM {
        match syscall(
            call::RECVFROM,
            [socket, answers + filled, ROOM - filled, DONT_WAIT, 0, 0],
        ) {
            AGAIN | 0 => break,
            more => filled += well(more)?,
        }
    }
    syscall(call::CLOSE, [socket, 0, 0, 0, 0, 0]);
    Ok(filled)
}

fn record(kind: u8, bytes: *const u8, length: usize) {
    let [a, b, c, d] = (length as u32).to_ne_bytes();
    let head = [kind, a, b, c, d];
    write(&raw const head as *const u8, 5);
    write(bytes, length);
}

fn write(bytes: *const u8, length: usize) {
    let mut written = 0;
    while written < length {
        match syscall(
            call::WRITE,
            [1, bytes as usize + written, length - written, 0, 0, 0],
        ) {
            more if more > 0 => written += more as usize,
            _ => exit(1),
        }
    }
}

fn well(result: isize) -> Result<usize, isize> {
    if result < 0 {
        Err(result)
    } else {
        Ok(result as usize)
    }
}

fn exit(code: usize) -> ! {
    loop {
        syscall(call::EXIT_GROUP, [code, 0, 0, 0, 0, 0]);
    }
}

#[cfg(target_arch = "x86_64")]
fn syscall(number: usize, arguments: [usize; 6]) -> isize {
    let result;
    // SAFETY: only calls that read or write the buffers of this program, as far as they reach.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
fn syscall(number: usize, arguments: [usize; 6]) -> isize {
    let result;
    // SAFETY: only calls that read or write the buffers of this program, as far as they reach.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack)
        );
    }
    result
}
