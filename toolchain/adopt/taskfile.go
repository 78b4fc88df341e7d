package adopt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// taskfileNames are the names that the program task looks for, in its order.
var taskfileNames = []string{
	"Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml",
	"Taskfile.dist.yml", "taskfile.dist.yml", "Taskfile.dist.yaml", "taskfile.dist.yaml",
}

// taskfileCall matches a line of a Taskfile that runs controller-gen by its name or by a variable,
// with the arguments.
var taskfileCall = regexp.MustCompile(`(?i)controller[-_]?gen\S*(?:\s*\}\})?["']?\s+(\S.*paths=[^'\n]*)`)

// taskfile records the calls in the project's Taskfile as unknown, so that the user is asked to
// list them. Taskfiles are not read: no project of test/projects runs controller-gen in one.
func (f *finder) taskfile() error {
	for _, name := range taskfileNames {
		path := filepath.Join(f.dir, name)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(data), "\n") {
			if m := taskfileCall.FindStringSubmatch(line); m != nil {
				f.plan.Unknown = append(f.plan.Unknown,
					Call{Source: f.source(path, i+1), Dir: f.dir, Args: strings.Fields(m[1])})
			}
		}
		return nil
	}
	return nil
}
