package store_test

import (
	"context"
	"errors"
	"fmt"

	"kelson.dev/apiserver/store"
)

func Example() {
	s, err := store.Open(store.Config{})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	ctx := context.Background()
	before := s.Snapshot()

	key := store.Key{Resource: "pods", Namespace: "default", Name: "web"}
	objs, err := s.Commit(ctx, store.Op{Key: key, Data: []byte(`{"metadata":{"name":"web"}}`)})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", objs[0].Data)

	_, err = s.Commit(ctx, store.Op{Key: key, Data: objs[0].Data, Expect: objs[0].Revision + 1})
	fmt.Println(errors.Is(err, store.ErrConflict), err)

	cursor, err := s.Watch("pods", before.Revision())
	if err != nil {
		panic(err)
	}
	events, revision, err := cursor.Next()
	fmt.Println(len(events), "event up to", revision, err)
	fmt.Println(before.Count("pods", ""), s.Snapshot().Count("pods", ""))
	// Output:
	// {"metadata":{"resourceVersion":"2","name":"web"}}
	// true pods default/web: revision conflict
	// 1 event up to 2 <nil>
	// 0 1
}
