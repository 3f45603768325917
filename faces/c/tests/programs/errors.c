/* Version, status, error, options. */
#include "check.h"
#include <errno.h>

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    evendb_options *options;
    evendb_db *db = NULL;
    evendb_error *error = NULL;

    CHECK(evendb_abi_version() >= EVENDB_ABI_VERSION);
    CHECK(strchr(evendb_version(), '.') != NULL);
    CHECK(strcmp(evendb_status_name(EVENDB_CONFLICT), "EVENDB_CONFLICT") == 0);
    CHECK(strcmp(evendb_status_name(EVENDB_OK), "EVENDB_OK") == 0);
    CHECK(strcmp(evendb_status_name(12345), "EVENDB_UNKNOWN") == 0);

    /* No error has no message, and nothing else. */
    CHECK(evendb_error_code(NULL) == EVENDB_OK);
    CHECK(strcmp(evendb_error_message(NULL), "") == 0);
    CHECK(evendb_error_file(NULL) == NULL);
    CHECK(evendb_error_offset(NULL) == UINT64_MAX);
    CHECK(evendb_error_errno(NULL) == 0);
    evendb_error_free(NULL);

    /* An error of the system names its number, and the place is written without being read. */
    CHECK(evendb_open("/dev/null/no", NULL, &db, &error) != EVENDB_OK);
    CHECK(db == NULL);
    CHECK(evendb_error_errno(error) == ENOTDIR);
    CHECK(strstr(evendb_error_message(error), "/dev/null/no") != NULL);
    evendb_error_free(error);
    memset(&error, 0x5a, sizeof error);
    OK(evendb_options_create(&options, E));
    CHECK(evendb_options_set(options, "memory_budget", "16 MiB", &error) == EVENDB_OK);
    CHECK(error == NULL);
    /* Nobody has to take the error. */
    CHECK(evendb_options_set(options, "memory_budget", "much", NULL) == EVENDB_INVALID_ARGUMENT);

    /* Names and texts. */
    CHECK(evendb_options_set(options, "memory_budjet", "1", &error) == EVENDB_INVALID_ARGUMENT);
    CHECK(strstr(evendb_error_message(error), "memory_budget") != NULL);
    CHECK(evendb_error_file(error) == NULL);
    CHECK(evendb_error_offset(error) == UINT64_MAX);
    evendb_error_free(error);
    IS(evendb_options_set(options, "durability", "none", E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_options_set(options, NULL, "1", E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_options_set(options, "layout", NULL, E), EVENDB_INVALID_ARGUMENT);
    IS(evendb_options_set(options, "\xff", "1", E), EVENDB_INVALID_ARGUMENT);
    OK(evendb_options_set(options, "durability", "sync", E));
    OK(evendb_options_set(options, "layout", layout_, E));
    OK(evendb_options_set(options, "compression", "lz4", E));
    OK(evendb_options_set(options, "create_if_missing", "false", E));
    IS(evendb_open(below(directory, "db"), options, &db, E), EVENDB_NOT_FOUND);
    OK(evendb_options_set(options, "create_if_missing", "true", E));
    OK(evendb_open(below(directory, "db"), options, &db, E));
    /* One set of options opens many databases. */
    evendb_db *second;
    IS(evendb_open(below(directory, "db"), options, &second, E), EVENDB_LOCKED);
    OK(evendb_open(below(directory, "other"), options, &second, E));
    /* A limit is told when the option is set; the message has it. */
    CHECK(evendb_options_set(options, "memory_budget", "1", &error) == EVENDB_INVALID_ARGUMENT);
    CHECK(strstr(evendb_error_message(error), "1MiB") != NULL);
    evendb_error_free(error);
    evendb_options_free(options);
    evendb_options_free(NULL);
    OK(evendb_close(db, E));
    OK(evendb_close(second, E));
    evendb_free(db);
    evendb_free(second);

    /* Damage names file and offset. */
    FILE *file = fopen(below(directory, "db/CURRENT"), "r+b");
    CHECK(file != NULL);
    CHECK(fwrite("garbage", 1, 7, file) == 7);
    fclose(file);
    CHECK(evendb_open(below(directory, "db"), NULL, &db, &error) == EVENDB_CORRUPTION);
    CHECK(strstr(evendb_error_file(error), "CURRENT") != NULL);
    CHECK(evendb_error_offset(error) != UINT64_MAX);
    evendb_error_free(error);
    return ended();
}
