// Package walk visits the files below a folder that may be a symbolic link.
package walk

import (
	"io/fs"
	"path/filepath"
)

// Dir is filepath.WalkDir, but enters root if it is a symbolic link to a folder, such as the link
// through which a user opens a project. Names begin with root, not with the target of the link. As
// in WalkDir, other symbolic links are not followed.
func Dir(root string, visit fs.WalkDirFunc) error {
	target, err := filepath.EvalSymlinks(root)
	if err != nil {
		target = root // WalkDir reports the error
	}
	return filepath.WalkDir(target, func(name string, d fs.DirEntry, err error) error {
		if name == target {
			return visit(root, d, err)
		}
		if rel, relErr := filepath.Rel(target, name); relErr == nil {
			name = filepath.Join(root, rel)
		}
		return visit(name, d, err)
	})
}
