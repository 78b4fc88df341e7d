// Command dockerfile parses a Dockerfile with BuildKit's parser, and prints the base image and the
// user of each stage.
package main

import (
	"fmt"
	"os"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	parsed, err := parser.Parse(file)
	if err != nil {
		return err
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return err
	}
	for _, stage := range stages {
		user := "root"
		for _, command := range stage.Commands {
			if u, ok := command.(*instructions.UserCommand); ok {
				user = u.User
			}
		}
		fmt.Println(stage.BaseName, user)
	}
	return nil
}
