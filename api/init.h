// The instance behind the world model and the sessions: opened with the first, closed with the last. state.lock is held.
#pragma once

namespace weft::api {

/// Joins the job unless that is done. `*provided`: the level that the instance can give.
int open_instance(int wanted_level, int* provided);

/// Leaves the job if neither the world model nor a session needs the instance any more.
int close_instance_if_unused();

/// "MPI_THREAD_MULTIPLE" and its likes, as info values name them.
const char* thread_level_name(int level);

}  // namespace weft::api
