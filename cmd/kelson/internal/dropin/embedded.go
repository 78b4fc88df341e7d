package dropin

import (
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"runtime"
)

// programs has the small program for this platform, if make has built it.
//
//go:embed programs
var programs embed.FS

// readProgram returns the small program. It returns fs.ErrNotExist if this binary was built without
// it.
func readProgram(from fs.FS) ([]byte, error) {
	packed, err := from.Open("programs/program-" + runtime.GOOS + "-" + runtime.GOARCH + ".gz")
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	reader, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fmt.Errorf("unpack program: %w", err)
	}
	program, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("unpack program: %w", err)
	}
	return program, nil
}
