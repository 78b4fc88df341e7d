package dropin

import (
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// programs has the small program for this platform, if make has built it.
//
//go:embed programs
var programs embed.FS

// writeProgram writes the small program to an executable file that must not exist. It returns
// fs.ErrNotExist if this binary was built without it.
func writeProgram(from fs.FS, name string) error {
	packed, err := from.Open("programs/program-" + runtime.GOOS + "-" + runtime.GOARCH + ".gz")
	if err != nil {
		return err
	}
	defer packed.Close()
	program, err := gzip.NewReader(packed)
	if err != nil {
		return fmt.Errorf("unpack program: %w", err)
	}
	out, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, program)
	return errors.Join(err, out.Close())
}
