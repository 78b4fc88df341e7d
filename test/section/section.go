// Package section replaces the parts of the documentation that programs write.
package section

import (
	"fmt"
	"os"
	"strings"
)

// Replace replaces the text between two markers of a page. The markers stay. It is an error if the
// page does not have both, in this order; the page then does not change.
func Replace(file, begin, end, text string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("write docs: %w", err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("write docs: %s has no part between %q and %q", file, begin, end)
	}
	if err := os.WriteFile(file, []byte(before+begin+text+end+after), 0o644); err != nil {
		return fmt.Errorf("write docs: %w", err)
	}
	return nil
}
