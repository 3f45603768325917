/* Copies and backups. */
#include "check.h"

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    evendb_db *db = opened(below(directory, "db")), *copy;
    evendb_keyspace *keyspace = default_of(db), *of_copy;
    evendb_summary *summary;
    evendb_backup_list *list;
    const char *damage;
    uint64_t number;
    char *backups = below(directory, "backups");

    put(keyspace, "a", "1");
    OK(evendb_copy_to(db, below(directory, "copy"), EVENDB_CHECK_NEW, 0, &summary, E));
    CHECK(figure(summary, "bytes_copied") > 0);
    evendb_summary_free(summary);
    IS(evendb_copy_to(db, below(directory, "copy"), EVENDB_CHECK_NEW, 0, NULL, E), EVENDB_ALREADY_EXISTS);
    IS(evendb_copy_to(db, below(directory, "other"), 5, 0, NULL, E), EVENDB_INVALID_ARGUMENT);

    OK(evendb_backup(db, backups, EVENDB_CHECK_NEW, UINT64_MAX, &summary, E));
    uint64_t first = figure(summary, "number");
    evendb_summary_free(summary);
    put(keyspace, "a", "2");
    OK(evendb_backup(db, backups, EVENDB_CHECK_ALL, 0, NULL, E));
    put(keyspace, "a", "3");
    OK(evendb_backup_list_read(backups, &list, E));
    CHECK(evendb_backup_list_count(list) == 2);
    OK(evendb_backup_list_at(list, 0, &summary, &damage, E));
    CHECK(figure(summary, "number") == first && damage == NULL);
    CHECK(figure(summary, "verified") == 1 && figure(summary, "damaged") == 0);
    CHECK(figure(summary, "unix_seconds") > 1700000000);
    evendb_summary_free(summary);
    IS(evendb_backup_list_at(list, 2, &summary, NULL, E), EVENDB_INVALID_ARGUMENT);
    CHECK(summary == NULL && evendb_backup_list_count(NULL) == 0);
    evendb_backup_list_free(list);
    evendb_backup_list_free(NULL);

    OK(evendb_backup_verify(backups, 0, &number, E));
    CHECK(number > first);
    OK(evendb_backup_verify(backups, first, NULL, E));
    IS(evendb_backup_verify(backups, 99, &number, E), EVENDB_NOT_FOUND);
    OK(evendb_backup_restore(backups, first, below(directory, "first"), NULL, E));
    OK(evendb_backup_restore(backups, 0, below(directory, "newest"), &number, E));
    IS(evendb_backup_restore(backups, 0, below(directory, "newest"), NULL, E), EVENDB_ALREADY_EXISTS);
    OK(evendb_backup_prune(backups, 1, &number, E));
    CHECK(number == 1);
    IS(evendb_backup_prune(backups, 0, &number, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_backup_list_read(below(directory, "nowhere"), &list, E), EVENDB_NOT_FOUND);

    const char *places[] = {"copy", "first", "newest"}, *values[] = {"1", "1", "2"};
    for (int place = 0; place < 3; place++) {
        copy = opened(below(directory, places[place]));
        of_copy = default_of(copy);
        CHECK(holds(of_copy, "a", values[place]));
        evendb_keyspace_free(of_copy);
        OK(evendb_close(copy, E));
        evendb_free(copy);
    }
    evendb_keyspace_free(keyspace);
    OK(evendb_close(db, E));
    evendb_free(db);
    return ended();
}
