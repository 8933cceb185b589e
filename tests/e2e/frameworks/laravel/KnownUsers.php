<?php

use Illuminate\Auth\GenericUser;
use Illuminate\Contracts\Auth\Authenticatable;
use Illuminate\Contracts\Auth\UserProvider;

/** The users: user0 with the password secret0, and so on. */
class KnownUsers implements UserProvider
{
    public function retrieveById($identifier)
    {
        return preg_match('/^user(\d+)$/', (string) $identifier, $found)
            ? new GenericUser(['id' => $identifier, 'password' => "secret$found[1]", 'remember_token' => null]) : null;
    }

    public function retrieveByToken($identifier, $token)
    {
        return null;
    }

    public function updateRememberToken(Authenticatable $user, $token)
    {
    }

    public function retrieveByCredentials(array $credentials)
    {
        return $this->retrieveById($credentials['user'] ?? '');
    }

    public function validateCredentials(Authenticatable $user, array $credentials)
    {
        return hash_equals($user->getAuthPassword(), (string) ($credentials['password'] ?? ''));
    }
}
