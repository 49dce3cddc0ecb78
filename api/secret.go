package api

import (
	"errors"
	"fmt"
	"strings"
)

// SecretID names a secret that the masters keep for tasks. It is written ROLE/NAME: the secret db of role eng/etl is
// "eng/etl/db".
type SecretID string

// Secret names a secret that a task gets when it starts, and says where the task finds it. The value of the secret is
// never part of a Task.
type Secret struct {
	ID SecretID
	// Env is the environment variable that holds the secret. A framework's own executor asks for the secret by this
	// name.
	Env string
	// File is the name of the file that holds the secret, in the folder "secrets" of the task's sandbox. The folder is
	// in memory, and the file is readable by the task's user. Exactly one of Env and File is set.
	File string
}

// Role is the role that the secret is for.
func (id SecretID) Role() Role {
	if i := strings.LastIndexByte(string(id), '/'); i >= 0 {
		return Role(id[:i])
	}
	return ""
}

// Name returns the name of the secret within its role.
func (id SecretID) Name() string { return string(id[strings.LastIndexByte(string(id), '/')+1:]) }

// Check reports why id can't name a secret, or nil.
func (id SecretID) Check() error {
	role := id.Role()
	if role == "" {
		return fmt.Errorf("%q names no secret; it is written ROLE/NAME, such as %s/password", string(id), DefaultRole)
	}
	if err := CheckID("the secret's name", id.Name()); err != nil {
		return err
	}
	return role.Check()
}

// checkSecrets checks each of the task's secrets, and that no two of them have the same variable or file.
func (t *Task) checkSecrets() error {
	if len(t.Secrets) > SecretsPerTaskMax {
		return fmt.Errorf("the task names %d secrets, at most %d are allowed", len(t.Secrets), SecretsPerTaskMax)
	}
	found := make(map[Secret]bool, len(t.Secrets))
	for _, secret := range t.Secrets {
		if err := secret.Check(); err != nil {
			return fmt.Errorf("secret %s: %w", secret.ID, err)
		}
		place := Secret{Env: secret.Env, File: secret.File}
		if found[place] {
			return fmt.Errorf("secret %s: %s%s holds another one already", secret.ID, secret.Env, secret.File)
		}
		found[place] = true
		if t.Command == nil || secret.Env == "" {
			continue
		}
		if _, set := t.Command.Env[secret.Env]; set {
			return fmt.Errorf("secret %s: the command sets %s already", secret.ID, secret.Env)
		}
	}
	return nil
}

// Check reports why a task can't have s among its secrets, or nil.
func (s Secret) Check() error {
	if err := s.ID.Check(); err != nil {
		return err
	}
	switch {
	case (s.Env == "") == (s.File == ""):
		return errors.New("say either the variable or the file that is to hold it")
	case s.File != "":
		return CheckID("the file's name", s.File)
	case strings.Contains(s.Env, "="):
		return fmt.Errorf("%q is no variable's name: it holds '='", s.Env)
	case len(s.Env) > IDBytesMax:
		return fmt.Errorf("the variable's name has %d bytes, at most %d are allowed", len(s.Env), IDBytesMax)
	}
	return checkWord("the variable's name", s.Env)
}

func (s Secret) bytes() int { return 24 + len(s.ID) + len(s.Env) + len(s.File) }
