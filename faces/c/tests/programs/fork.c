/* A forked child: every call is refused, what is freed is forgotten, no byte is written; the parent
 * goes on. A program that goes to the background. A process that was spawned or forked and lives on
 * keeps nothing locked. */
#include "check.h"
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static evendb_db *db;
static evendb_keyspace *keyspace;
static evendb_cursor *cursor, *own_cursor;
static evendb_snapshot *snapshot;
static evendb_batch *batch;
static evendb_transaction *transaction;
static evendb_position *position;
static evendb_changes *changes;
static evendb_ingest *ingest;
static evendb_value *value;
static evendb_trace *trace;
static const char *directory_;

#define NO EVENDB_FORKED

static void free_all(void) {
    evendb_cursor_free(cursor);
    evendb_cursor_free(own_cursor);
    evendb_snapshot_free(snapshot);
    evendb_batch_free(batch);
    evendb_transaction_free(transaction);
    evendb_position_free(position);
    evendb_changes_free(changes);
    evendb_ingest_free(ingest);
    evendb_trace_free(trace);
    evendb_value_free(value);
    evendb_keyspace_free(keyspace);
    evendb_free(db);
}

static void never(void *context, evendb_status status, evendb_value *of, evendb_error *error) {
    (void)context, (void)status, (void)of, (void)error;
    CHECK(!"a callback in the child");
}

static void refused_in_child(void) {
    evendb_changes *new_changes;
    const void *key;
    evendb_value *found;
    evendb_keyspace *other;
    evendb_names *names;
    evendb_batch *new_batch;
    evendb_snapshot *new_snapshot;
    evendb_transaction *new_transaction;
    evendb_change *change;
    evendb_stats *stats;
    evendb_position *now;
    evendb_trace *new_trace;
    evendb_db *second;
    uint64_t number;
    size_t size;
    int32_t flag;
    uint32_t id;
    char room[64];

    CHECK(same(evendb_value_data(value), evendb_value_size(value), "1"));
    IS(evendb_persist(db, E), NO);
    IS(evendb_flush(db, E), NO);
    IS(evendb_settle_debt(db, E), NO);
    IS(evendb_compact(db, NULL, E), NO);
    IS(evendb_default_keyspace(db, &other, E), NO);
    IS(evendb_keyspace_open(db, "k", NULL, &other, E), NO);
    IS(evendb_keyspace_exists(db, "k", &flag, E), NO);
    IS(evendb_keyspace_drop(db, "k", E), NO);
    IS(evendb_keyspace_names(db, &names, E), NO);
    IS(evendb_keyspace_id(keyspace, &id, E), NO);
    IS(evendb_keyspace_name(keyspace, &found, E), NO);
    IS(evendb_keyspace_set_property(keyspace, "p", T("v"), E), NO);
    IS(evendb_keyspace_compact(keyspace, EVERYTHING, NULL, E), NO);
    IS(evendb_get(keyspace, T("a"), &found, E), NO);
    IS(evendb_get_into(keyspace, T("a"), room, 64, &size, &flag, E), NO);
    IS(evendb_contains(keyspace, T("a"), &flag, E), NO);
    IS(evendb_multi_get(keyspace, 0, NULL, NULL, NULL, E), NO);
    IS(evendb_approximate_size(keyspace, EVERYTHING, &number, NULL, E), NO);
    IS(evendb_put(keyspace, T("a"), T("child"), E), NO);
    IS(evendb_put_with_ttl(keyspace, T("a"), T("child"), 1, E), NO);
    IS(evendb_delete(keyspace, T("a"), E), NO);
    IS(evendb_delete_range(keyspace, EVERYTHING, E), NO);
    IS(evendb_merge(keyspace, T("a"), T("child"), E), NO);
    IS(evendb_compare_and_swap(keyspace, T("a"), 0, NULL, 0, 0, NULL, 0, &flag, NULL, E), NO);
    IS(evendb_pop_first(keyspace, EVERYTHING, NULL, NULL, E), NO);
    IS(evendb_cursor_open(keyspace, EVERYTHING, 0, &cursor, E), NO);
    IS(evendb_cursor_next(own_cursor, &key, NULL, NULL, NULL, E), NO);
    IS(evendb_cursor_seek(own_cursor, T("a"), E), NO);
    IS(evendb_cursor_fill(own_cursor, room, 64, &size, NULL, E), NO);
    IS(evendb_batch_create(db, &new_batch, E), NO);
    IS(evendb_batch_put(batch, keyspace, T("a"), T("child"), E), NO);
    IS(evendb_batch_commit(batch, E), NO);
    IS(evendb_snapshot_create(db, &new_snapshot, E), NO);
    IS(evendb_snapshot_get(snapshot, keyspace, T("a"), &found, E), NO);
    IS(evendb_transaction_begin(db, &new_transaction, E), NO);
    IS(evendb_transaction_get(transaction, keyspace, T("a"), &found, E), NO);
    IS(evendb_transaction_put(transaction, keyspace, T("a"), T("child"), E), NO);
    IS(evendb_transaction_commit(transaction, E), NO);
    IS(evendb_transaction_rollback(transaction, E), NO);
    IS(evendb_position_now(db, &now, E), NO);
    IS(evendb_changes_next(changes, UINT64_MAX, &change, E), NO);
    IS(evendb_ingest_put(ingest, T("z"), T("child"), E), NO);
    IS(evendb_ingest_finish(ingest, NULL, E), NO);
    IS(evendb_export(keyspace, below(directory_, "child"), NULL, E), NO);
    IS(evendb_copy_to(db, below(directory_, "child"), 0, 0, NULL, E), NO);
    IS(evendb_backup(db, below(directory_, "child"), 0, 0, NULL, E), NO);
    IS(evendb_fork(db, below(directory_, "child"), 1, NULL, E), NO);
    IS(evendb_rename_keyspace(db, "k", "l", E), NO);
    IS(evendb_swap_keyspaces(db, "k", "l", E), NO);
    IS(evendb_refresh(db, &second, E), NO);
    IS(evendb_get_part(keyspace, T("a"), 0, 1, &found, E), NO);
    IS(evendb_approximate_len(keyspace, EVERYTHING, &number, E), NO);
    IS(evendb_watch_prefix(keyspace, T("a"), NULL, &new_changes, E), NO);
    IS(evendb_changes_lag(changes, &number, E), NO);
    /* The callback of a call that has not begun never comes. */
    IS(evendb_get_async(keyspace, T("a"), never, NULL, NULL, E), NO);
    IS(evendb_batch_commit_async(batch, never, NULL, NULL, E), NO);
    IS(evendb_transaction_commit_async(transaction, never, NULL, NULL, E), NO);
    IS(evendb_persist_async(db, never, NULL, NULL, E), NO);
    IS(evendb_stats_take(db, &stats, E), NO);
    IS(evendb_trace_start(db, below(directory_, "child"), 0, 0, 0, &new_trace, E), NO);
    IS(evendb_trace_stop(trace, NULL, E), NO);
    IS(evendb_close(db, E), NO);
    IS(evendb_open(below(directory_, "second"), NULL, &second, E), NO);
}

/* Waits for a child and for its success. */
static void wait_for(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static pid_t forked(void) {
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    return child;
}

static void child_and_parent(void) {
    char *path = below(directory_, "db");
    db = opened(path);
    keyspace = default_of(db);
    put(keyspace, "a", "1");
    OK(evendb_get(keyspace, T("a"), &value, E));
    OK(evendb_cursor_open(keyspace, EVERYTHING, 0, &own_cursor, E));
    OK(evendb_snapshot_create(db, &snapshot, E));
    OK(evendb_batch_create(db, &batch, E));
    OK(evendb_batch_put(batch, keyspace, T("b"), T("2"), E));
    OK(evendb_transaction_begin(db, &transaction, E));
    OK(evendb_position_now(db, &position, E));
    OK(evendb_changes_open(db, position, &changes, E));
    OK(evendb_ingest_begin(keyspace, &ingest, E));
    OK(evendb_ingest_put(ingest, T("i"), T("4"), E));
    OK(evendb_trace_start(db, below(directory_, "trace"), 0, 0, 0, &trace, E));
    pid_t child = forked();
    if (child == 0) {
        refused_in_child();
        free_all();
        /* With what runs at exit. */
        exit(0);
    }
    for (int at = 0; at < 1000; at++) {
        put(keyspace, "c", "3");
    }
    wait_for(child);
    const void *key;
    OK(evendb_cursor_next(own_cursor, &key, NULL, NULL, NULL, E));
    CHECK(key != NULL);
    OK(evendb_batch_commit(batch, E));
    OK(evendb_ingest_finish(ingest, NULL, E));
    OK(evendb_transaction_put(transaction, keyspace, T("t"), T("5"), E));
    OK(evendb_transaction_commit(transaction, E));
    evendb_keyspace *still = keyspace;
    OK(evendb_close(db, E));
    keyspace = still;
    cursor = NULL;
    free_all();

    db = opened(path);
    keyspace = default_of(db);
    CHECK(holds(keyspace, "a", "1") && holds(keyspace, "b", "2") && holds(keyspace, "c", "3"));
    CHECK(holds(keyspace, "i", "4") && holds(keyspace, "t", "5"));
    evendb_keyspace_free(keyspace);
    OK(evendb_close(db, E));
    evendb_free(db);
}

/* Opens, goes to the background by two forks, and writes there. */
static void to_the_background(void) {
    char *path = below(directory_, "background");
    int told[2];
    char answer;
    CHECK(pipe(told) == 0);
    pid_t child = forked();
    if (child == 0) {
        db = opened(path);
        keyspace = default_of(db);
        put(keyspace, "a", "1");
        pid_t grandchild = forked();
        if (grandchild != 0) {
            _exit(0);
        }
        /* The owner is gone: there is still no second writer in this process. */
        IS(evendb_put(keyspace, T("a"), T("2"), E), NO);
        evendb_keyspace_free(keyspace);
        evendb_free(db);
        CHECK(write(told[1], "x", 1) == 1);
        exit(0);
    }
    wait_for(child);
    close(told[1]);
    CHECK(read(told[0], &answer, 1) == 1);
    close(told[0]);
    /* The death of its owner gave the database free. */
    db = opened(path);
    keyspace = default_of(db);
    CHECK(holds(keyspace, "a", "1"));
    evendb_keyspace_free(keyspace);
    OK(evendb_close(db, E));
    evendb_free(db);
    /* A child whose parent has no database open may open one. */
    child = forked();
    if (child == 0) {
        db = opened(path);
        OK(evendb_close(db, E));
        evendb_free(db);
        exit(0);
    }
    wait_for(child);
}

/* Sleepers that were made while it was open do not keep it locked. */
static void sleepers(void) {
    char *path = below(directory_, "sleepers"), *arguments[] = {"sleep", "30", NULL};
    pid_t spawned;
    db = opened(path);
    CHECK(posix_spawnp(&spawned, "sleep", NULL, NULL, arguments, environ) == 0);
    pid_t child = forked();
    if (child == 0) {
        sleep(30);
        _exit(0);
    }
    OK(evendb_close(db, E));
    evendb_free(db);
    db = opened(path);
    OK(evendb_close(db, E));
    evendb_free(db);
    kill(spawned, SIGKILL);
    kill(child, SIGKILL);
    CHECK(waitpid(spawned, NULL, 0) == spawned && waitpid(child, NULL, 0) == child);
}

int main(int count, char **arguments) {
    directory_ = began(count, arguments);
    to_the_background();
    child_and_parent();
    sleepers();
    return ended();
}
