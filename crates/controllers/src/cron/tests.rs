//! Decisions about CronJobs: upstream's cases, our own, and malformed inputs.

mod at_the_tick;
mod cronjob_controller_handler;
mod cronjob_controllerv2;
mod failures;
mod hostile;
mod promises;
mod sync_cron_job;
mod utils;
mod world;
