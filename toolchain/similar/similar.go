// Package similar compares names, for messages that ask "did you mean …?".
package similar

import "strings"

// Distance returns the Levenshtein distance of two strings: how many bytes to insert, remove or
// replace to get from a to b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1) // of the table: from a[:i] to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// Nearest returns the name that needs the fewest edits to become the given one, if these are few,
// and "" otherwise. Upper and lower case are equal.
func Nearest(given string, names []string) string {
	best, least := "", max(1, len(given)/3)+1
	for _, name := range names {
		if n := Distance(strings.ToLower(given), strings.ToLower(name)); n < least {
			best, least = name, n
		}
	}
	return best
}
