@extends('page')
@section('body')
<form method="post"><input name="_token" type="hidden" value="{{ csrf_token() }}"><input name="user"><input name="password" type="password"></form>
@endsection
