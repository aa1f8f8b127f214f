//! Scripted frames against the engine.
