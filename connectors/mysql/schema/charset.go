package schema

import "strings"

// charsetName gives a charset's name as it is kept: lower case.
func charsetName(name string) string { return strings.ToLower(name) }

// charsetOfCollation gives the charset that a collation's name begins with; "" for the
// collations of MariaDB that serve several charsets (uca1400_ai_ci).
func charsetOfCollation(collation string) string {
	if collation == "" || strings.HasPrefix(collation, "uca1400_") {
		return ""
	}
	charset, _, _ := strings.Cut(strings.ToLower(collation), "_")
	return charset
}
