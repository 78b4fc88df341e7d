package toolchain_test

import (
	"context"
	"errors"
	"fmt"

	"kelson.dev/toolchain"
	"kelson.dev/toolchain/loader"
)

func ExampleGenerate() {
	res, err := toolchain.Generate(context.Background(),
		toolchain.Options{Dir: "gen/internal/fixture", Check: true})
	if at := new(loader.Error); errors.As(err, &at) {
		fmt.Println("first error at", at.Pos)
	}
	for _, f := range res.Files {
		fmt.Println(f.Path, f.Changed)
	}
	// Output: zz_generated.deepcopy.go false
}
