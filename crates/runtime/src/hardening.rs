//! Protection of a process against other processes of the same user.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Makes this process undumpable: other processes of the same user can neither attach to it nor read its memory and environment in
/// `/proc`, and it writes no core dump. All containers of a node pod run as the same user, and the environment has credentials.
///
/// The kernel resets this at `execve`, so every program calls it at its start.
pub fn set_undumpable() -> std::io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn process_is_undumpable() {
        set_undumpable().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
