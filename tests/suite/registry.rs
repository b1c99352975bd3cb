//! `registry+v1`: OLM's bundles, our own small ones and published ones, installed, upgraded, refused and removed.

mod api_services;
mod case;
mod corpus;
mod install;
mod listing;
mod modes;
mod providers;
mod proxy;
pub mod published;
mod refusals;
mod serving;
mod survey;
mod turn;
mod upgrade;
mod webhooks;
