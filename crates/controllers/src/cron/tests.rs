//! What follows from CronJobs as they are, and from what happens to them: upstream's cases, ours, and inputs that make no
//! sense.

mod at_the_tick;
mod cronjob_controller_handler;
mod cronjob_controllerv2;
mod failures;
mod hostile;
mod promises;
mod sync_cron_job;
mod utils;
mod world;
