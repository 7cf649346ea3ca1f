// The instance behind the world model and the sessions: opened with the first. It is closed with the world model, but where there have
// been sessions at the end of the process only: one process may open sessions while others have none, and those that are opened later
// find each other as before. state.lock is held.
#pragma once

namespace weft::api {

/// Joins the job unless that is done: local, others are not waited for. `*provided`: the level that the instance can give.
int open_instance(int wanted_level, int* provided);

/// Leaves the job, or sees to it that the end of the process does, if neither the world model nor a session needs the instance any more.
int close_instance_if_unused();

/// "MPI_THREAD_MULTIPLE" and its likes, as info values name them.
const char* thread_level_name(int level);

}  // namespace weft::api
