// Package scaffold creates operator projects and changes them: kelson init, create, edit, delete
// and upgrade.
//
//	done, err := scaffold.Init(scaffold.InitOptions{Dir: ".", Domain: "example.com", Repo: "example.com/welcome", Source: source})
//	done, err = scaffold.CreateAPI(".", scaffold.API{Group: "webapp", Version: "v1", Kind: "Welcome", Resource: true, Controller: true})
//
// # Model
//
//	_template/            the files of projects, a folder per step; names replace the words in capitals in paths
//	  project/  version/  kind/  controller/  core/  defaulting/ …
//	PROJECT               the scaffolded parts: kubebuilder's format, version 3
//	stage                 collects all changes of a folder, then applies all of them or none
//
// New files come from the template. Existing files are edited through their syntax trees: Go source
// with package goedit, lists in YAML with package yamledit. So the user's files need no scaffold
// markers.
//
// # Guarantees
//
// All functions are idempotent. DeleteAPI restores the bytes from before CreateAPI. A function that
// returns an error has changed nothing on the disk. Changed files keep their line ends, LF or CRLF.
// An import gets another name in a file that uses its name for something else. Projects follow
// kubebuilder's go/v4 layout, but much of the code that go/v4 puts into the project is in the
// operator library.
//
// Calls for one folder must not overlap.
package scaffold
