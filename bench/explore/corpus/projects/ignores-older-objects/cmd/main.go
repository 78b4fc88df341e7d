// Command main is the operator ignores-older-objects of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("ignores-older-objects") }
