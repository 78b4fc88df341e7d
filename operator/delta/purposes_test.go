package delta_test

import (
	"context"
	"fmt"

	"kelson.dev/operator/delta"
)

// A Queue is for consumers that must see each change: here, every database that was deleted is
// billed, although another one with the same name exists by the time that the consumer looks. A
// reconciler, which compares states, would not notice.
func ExampleQueue() {
	type database struct{ Name, UID string }
	changes := delta.NewQueue(delta.Config[string, database]{Key: func(d database) string { return d.Name }})
	changes.Add(database{"orders", "1"})
	changes.Delete(database{"orders", "1"})
	changes.Add(database{"orders", "2"})
	err := changes.Pop(context.Background(), func(_ string, deltas delta.Deltas[database], _ bool) error {
		for _, d := range deltas {
			if d.Type == delta.Deleted {
				fmt.Println("bill", d.Object.UID)
			}
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// bill 1
	// <nil>
}
