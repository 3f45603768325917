pub mod model;
mod moving;
mod singles;
