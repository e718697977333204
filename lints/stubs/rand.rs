//! Just enough of rand for the planted offences to compile.
pub mod rngs {
    pub struct ThreadRng;
    pub struct OsRng;
}
pub fn rng() -> rngs::ThreadRng {
    rngs::ThreadRng
}
pub fn random<T: Default>() -> T {
    T::default()
}
