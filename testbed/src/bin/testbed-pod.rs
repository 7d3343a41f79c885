//! What runs inside the test-bed's pods.
fn main() {}
