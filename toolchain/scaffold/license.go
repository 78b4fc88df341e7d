package scaffold

import (
	"errors"
	"fmt"
)

// boilerplateName is the file with the text at the beginning of generated Go files.
const boilerplateName = "hack/boilerplate.go.txt"

const apache2 = `
Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
`

// boilerplate returns the header of generated files for a license and an owner, "" for none.
func boilerplate(license, owner string, year int) (string, error) {
	text := ""
	switch license {
	case "", "none":
		if owner != "" {
			return "", errors.New("--owner has no effect with --license none: use --license apache2 or copyright")
		}
		return "", nil
	case "apache2":
		text = apache2
	case "copyright":
	default:
		return "", fmt.Errorf("--license %q: known licenses: apache2, copyright, none", license)
	}
	by := "."
	if owner != "" {
		by = " " + owner + "."
	}
	return fmt.Sprintf("/*\nCopyright %d%s\n%s*/\n", year, by, text), nil
}
