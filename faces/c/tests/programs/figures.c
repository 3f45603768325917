/* Statistics, summaries, traces. */
#include "check.h"

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    evendb_db *db = opened(below(directory, "db"));
    evendb_keyspace *keyspace = default_of(db);
    evendb_stats *stats;
    evendb_trace *trace, *second;
    evendb_summary *summary;
    const char *name, *description;
    uint64_t value, puts;
    int32_t kind, unit;
    size_t index, found = 0;
    char *path = below(directory, "calls.trace");

    put(keyspace, "a", "1");
    put(keyspace, "b", "2");
    OK(evendb_stats_take(db, &stats, E));
    OK(evendb_stats_get(stats, "puts", &puts, E));
    CHECK(puts == 2);
    IS(evendb_stats_get(stats, "putts", &puts, E), EVENDB_INVALID_ARGUMENT);
    for (index = 0; index < evendb_stats_count(stats); index++) {
        OK(evendb_stats_at(stats, index, &name, &value, &kind, &unit, &description, E));
        CHECK(name != NULL && strlen(description) > 3);
        if (strcmp(name, "puts") == 0) {
            CHECK(value == 2 && kind == EVENDB_FIGURE_COUNTER && unit == EVENDB_UNIT_COUNT);
            found++;
        }
    }
    CHECK(found == 1 && index > 50);
    OK(evendb_stats_at(stats, index, &name, NULL, NULL, NULL, NULL, E));
    CHECK(name == NULL);
    CHECK(strchr(evendb_stats_text(stats), '\n') != NULL);
    CHECK(evendb_stats_text(NULL) == NULL && evendb_stats_count(NULL) == 0);

    OK(evendb_trace_start(db, path, 0, 0, EVENDB_TRACE_VALUES | EVENDB_TRACE_VALUE_HASHES, &trace, E));
    IS(evendb_trace_start(db, below(directory, "second"), 0, 0, 0, &second, E), EVENDB_INVALID_ARGUMENT);
    put(keyspace, "c", "3");
    CHECK(holds(keyspace, "c", "3"));
    OK(evendb_trace_stop(trace, &summary, E));
    CHECK(figure(summary, "recorded") == 2 && figure(summary, "file_bytes") > 0);
    OK(evendb_summary_at(summary, 0, &name, &value, E));
    CHECK(strcmp(name, "recorded") == 0 && value == 2);
    OK(evendb_summary_at(summary, 99, &name, &value, E));
    CHECK(name == NULL && value == 0);
    evendb_summary_free(summary);
    evendb_summary_free(NULL);
    IS(evendb_trace_stop(trace, NULL, E), EVENDB_USED_UP);
    evendb_trace_free(trace);
    evendb_trace_free(NULL);
    IS(evendb_trace_start(db, path, 0, 0, 0, &trace, E), EVENDB_ALREADY_EXISTS);
    IS(evendb_trace_start(db, below(directory, "other"), 0, 0, 8, &trace, E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_trace_start(db, below(directory, "other"), 100, 1 << 20, 0, &trace, E));
    evendb_trace_free(trace);

    evendb_keyspace_free(keyspace);
    OK(evendb_close(db, E));
    evendb_free(db);
    /* Statistics outlive the database. */
    OK(evendb_stats_get(stats, "puts", &puts, E));
    CHECK(puts == 2);
    evendb_stats_free(stats);
    evendb_stats_free(NULL);
    return ended();
}
