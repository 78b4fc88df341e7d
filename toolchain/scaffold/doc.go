// Package scaffold makes operator projects and changes them: kelson init, create, edit, delete and upgrade.
//
//	done, err := scaffold.Init(scaffold.InitOptions{Dir: ".", Domain: "example.com", Repo: "example.com/welcome", Checkout: checkout})
//	done, err = scaffold.CreateAPI(".", scaffold.API{Group: "webapp", Version: "v1", Kind: "Welcome", Resource: true, Controller: true})
//
// # Model
//
//	_template/            what projects look like, a folder per step; the words in capitals in paths stand for names
//	  project/  version/  kind/  controller/  core/  defaulting/ …
//	PROJECT               what was made: kubebuilder's format, version 3
//	stage                 a folder as it will be: everything is decided there, then written, all of it or nothing
//
// New files come from the template; files that exist are edited where it says so, Go by its syntax tree (package goedit) and lists in
// YAML by theirs (package yamledit). So nothing depends on marks in the user's files.
//
// # What holds
//
// Whatever is done twice changes nothing the second time. DeleteAPI takes back what CreateAPI made, to the byte. An error has changed nothing
// on the disk. Projects follow the layout of kubebuilder's go/v4, but most of what is there in the project is in the library here.
//
// Functions for one folder must not overlap.
package scaffold
