//! macOS: facts from `sysctl` and the I/O registry.

use std::process::Command;

/// A value by its name.
pub(super) fn sysctl(name: &str) -> Option<String> {
    output("/usr/sbin/sysctl", &["-n", name])
}

/// The identity of the machine's board.
pub(super) fn platform_uuid() -> Option<String> {
    uuid_in(&output("/usr/sbin/ioreg", &["-rd1", "-c", "IOPlatformExpertDevice"])?)
}

fn uuid_in(registry: &str) -> Option<String> {
    let line = registry.lines().find(|line| line.contains("\"IOPlatformUUID\""))?;
    line.split('"').nth(3).map(str::to_owned)
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_board_is_found_in_the_registry() {
        let text = "  | {\n  |   \"IOPlatformUUID\" = \"AB-12\"\n  |   \"model\" = <\"Mac14,14\">\n";
        assert_eq!(uuid_in(text).as_deref(), Some("AB-12"));
        assert_eq!(uuid_in("nothing"), None);
    }
}
