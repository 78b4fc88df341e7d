package store_test

import (
	"fmt"

	"kelson.dev/operator/store"
)

func Example() {
	things := store.NewIndexer(store.Config[string, thing]{Key: key})
	things.Put(thing{"apple", 1, "red round"})
	things.Put(thing{"brick", 2, "red"})
	if err := things.AddIndex("tag", tags); err != nil {
		panic(err)
	}
	round, err := things.ByIndex("tag", "round")
	fmt.Println(round, err)
	// Output: [{apple 1 red round}] <nil>
}
