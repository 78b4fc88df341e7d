package disk_test

import (
	"errors"
	"fmt"
	"os"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
)

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	backend, err := disk.Open(dir)
	if err != nil {
		panic(err)
	}
	_, err = disk.Open(dir)
	fmt.Println(errors.Is(err, store.ErrLocked))

	s, err := store.Open(store.Config{Backend: backend})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Close())
	// Output:
	// true
	// <nil>
}
