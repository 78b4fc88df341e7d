package delta_test

import (
	"context"
	"fmt"

	"kelson.dev/operator/delta"
)

func Example() {
	q := delta.NewQueue(delta.Config[string, thing]{Key: key})
	q.Add(thing{"a", 1})
	q.Add(thing{"b", 1})
	q.Update(thing{"a", 2})
	for q.Len() > 0 {
		_ = q.Pop(context.Background(), func(key string, deltas delta.Deltas[thing], _ bool) error {
			for _, d := range deltas {
				fmt.Println(d.Type, key, d.Object.state)
			}
			return nil
		})
	}
	// Output:
	// Added a 1
	// Updated a 2
	// Added b 1
}
