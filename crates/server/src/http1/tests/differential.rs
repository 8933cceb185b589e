//! What hyper refuses, we refuse; what both take, both take alike.
