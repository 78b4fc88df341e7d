// Package bundle builds the files that the console serves, with esbuild's Go module. The result
// depends only on the sources and on the versions in go.mod.
package bundle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

// Build returns the files of dist, by name. dir is the folder of the console.
func Build(dir string) (map[string][]byte, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	vendor := filepath.Join(dir, "page", "vendor")
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: dir,
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: "page/app.js", OutputPath: "console"},
			{InputPath: "page/style.css", OutputPath: "console"},
			{InputPath: "page/terminal.js", OutputPath: "terminal"},
		},
		Outdir:            "dist",
		External:          []string{"/terminal.js"}, // loaded when it is needed
		Bundle:            true,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsNone, // the licenses are in a separate file
		Charset:           api.CharsetUTF8,
		Alias: map[string]string{
			"preact":       filepath.Join(vendor, "preact.mjs"),
			"preact/hooks": filepath.Join(vendor, "hooks.mjs"),
			"htm":          filepath.Join(vendor, "htm.mjs"),
		},
		LogLevel: api.LogLevelSilent,
	})
	if len(result.Errors) > 0 {
		var errs []error
		for _, m := range result.Errors {
			where := ""
			if m.Location != nil {
				where = fmt.Sprintf("%s:%d: ", m.Location.File, m.Location.Line)
			}
			errs = append(errs, errors.New(where+m.Text))
		}
		return nil, errors.Join(errs...)
	}
	files := map[string][]byte{}
	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	for _, name := range []string{"index.html", "icon.svg"} {
		if files[name], err = os.ReadFile(filepath.Join(dir, "page", name)); err != nil {
			return nil, err
		}
	}
	for _, library := range []string{"preact", "htm", "xterm"} {
		text, err := os.ReadFile(filepath.Join(vendor, "LICENSE."+library))
		if err != nil {
			return nil, err
		}
		files["licenses.txt"] = fmt.Appendf(files["licenses.txt"], "%s\n\n%s\n", library, text)
	}
	return files, nil
}
