//! `usher`: the terminal client.

fn main() {}
